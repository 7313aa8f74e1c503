/* Matrices of a decoder (load.h). Arrays of a GGUF file go from its mapped pages into packed maps; others, or all if
 * another type of weights is asked for, become floats, then elements of their type. What is packed is freed or unmapped
 * at once. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void load_name(const char *format, int64_t layer, const char *suffix, char name[LOAD_NAME]) {
    const char *at = strstr(format, "%lld");
    if (at == NULL)
        snprintf(name, LOAD_NAME, "%s%s", format, suffix);
    else
        snprintf(name, LOAD_NAME, "%.*s%lld%s%s", (int)(at - format), format, (long long)layer, at + 4, suffix);
}

bool load_has(const loading *l, const char *name) {
    int64_t rows, columns;
    return weights_shape(l->w, name, &rows, &columns);
}

/* --------------------------------------------------------------------------------------------------------- types -- */

/* The library's type of an array that runs as it is stored; 0: it becomes floats. */
static fovea_dtype stored_type(const loading *l, const char *name) {
    gguf_type type;
    return l->m->options.weights == 0 && weights_type(l->w, name, &type) ? gguf_dtype(type) : (fovea_dtype)0;
}

/* Floats become elements of that type, in place of the floats. */
static void *typed(const loading *l, float *values, int64_t count, fovea_dtype type) {
    if (type == FOVEA_DTYPE_F32)
        return values;
    void *to = malloc((size_t)(count * model_element(type)) + 1);
    if (to == NULL)
        load_out_of_memory(l);
    else if (fovea_convert(count, values, FOVEA_DTYPE_F32, to, type) != FOVEA_OK) {
        model_failed(l->m, "weights", l->to);
        free(to);
        to = NULL;
    }
    free(values);
    return to;
}

/* ------------------------------------------------------------------------------------------------------ matrices -- */

int load_matrix(const loading *l, const piece *p, const char *name, int64_t in, fovea_matrix *matrix, source *from) {
    fovea_dtype type = stored_type(l, name);
    if (type != 0) {
        if (weights_map(l->w, name, p->all, in, &from->pages, l->to) != 0)
            return -1;
        l->m->stored = true;
        *matrix = fovea_matrix_out_in(from->pages.data + p->first * from->pages.row_bytes, type, p->out, in);
        return 0;
    }
    float *values = weights_load(l->m->ctx, l->w, name, p->in_out ? in : p->all, p->in_out ? p->all : in, l->to);
    if (values == NULL)
        return -1;
    type = l->m->options.weights != 0 ? l->m->options.weights : l->m->options.dtype;
    from->values = typed(l, values, in * p->all, type);
    if (from->values == NULL)
        return -1;
    const int64_t size = model_element(type);
    from->pages.row_bytes = in * size;
    *matrix = p->in_out ? fovea_matrix_in_out(from->values + p->first * size, type, in, p->out)
                        : fovea_matrix_out_in(from->values + p->first * in * size, type, p->out, in);
    if (p->in_out)
        matrix->in_stride = p->all;
    return 0;
}

void load_release(source *from) {
    free(from->values);
    free(from->bias);
    gguf_unmap(&from->pages);
}

/* A matrix and its bias, if the file has one. */
static int load_part(const loading *l, const piece *p, int64_t layer, int64_t in, fovea_linear_part *part,
                     source *from) {
    char name[LOAD_NAME];
    load_name(p->name, layer, ".weight", name);
    if (load_matrix(l, p, name, in, &part->weight, from) != 0)
        return -1;
    load_name(p->name, layer, ".bias", name);
    if (load_has(l, name)) {
        from->bias = weights_load(l->m->ctx, l->w, name, 0, p->all, l->to);
        if (from->bias == NULL)
            return -1;
        part->bias = from->bias + p->first;
        part->bias_dtype = FOVEA_DTYPE_F32;
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- maps -- */

/* Parts of one type as one map, the last of the maps. */
static int pack_map(const loading *l, fovea_linear_desc *desc, const char *name, model_maps *maps) {
    model *m = l->m;
    const bool blocks = model_is_blocks(desc->parts[0].weight.dtype);
    int at = 0;
    while (maps->map[at] != NULL)
        at++;
    desc->arithmetic = m->options.has_arithmetic && blocks ? m->options.arithmetic : FOVEA_ARITHMETIC_DEFAULT;
    maps->parts[at] = (int)desc->part_count;
    if (fovea_linear_create(m->ctx, desc, &maps->map[at]) != FOVEA_OK)
        return model_failed(m, name, l->to);
    m->token_bytes += (int64_t)fovea_linear_weight_bytes(maps->map[at]);
    m->quantized = m->quantized || blocks;
    return 0;
}

int load_pack(const loading *l, const fovea_linear_part *parts, int count, const char *name, const map_kind *kind,
              model_maps *maps) {
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    if (parts[0].weight.out == 0)
        return 0;
    desc.dtype = l->m->options.dtype;
    desc.in_features = kind->in;
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (parts[end].weight.dtype != parts[first].weight.dtype)
                break;
        desc.part_count = end - first;
        desc.parts = parts + first;
        desc.y_dtype = kind->y_dtype;
        desc.activation = kind->activation;
        if (kind->activation == FOVEA_ACTIVATION_SILU_GATED && end - first == 1) { /* model_gate_apart() */
            desc.activation = first == 0 ? FOVEA_ACTIVATION_SILU : FOVEA_ACTIVATION_NONE;
            desc.y_dtype = FOVEA_DTYPE_F32;
        }
        if (pack_map(l, &desc, name, maps) != 0)
            return -1;
    }
    return 0;
}

int load_map(const loading *l, const piece *pieces, int count, int64_t layer, const map_kind *kind, model_maps *maps) {
    fovea_linear_part parts[LOAD_PARTS] = {0};
    source from[LOAD_PARTS] = {0};
    char name[LOAD_NAME];
    int status = 0;
    load_name(pieces[0].name, layer, "", name);
    for (int i = 0; status == 0 && i < count; i++)
        status = load_part(l, &pieces[i], layer, kind->in, &parts[i], &from[i]);
    if (status == 0)
        status = load_pack(l, parts, count, name, kind, maps);
    for (int i = 0; i < count; i++)
        load_release(&from[i]);
    return status;
}
