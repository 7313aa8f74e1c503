/* Loading a decoder (model.h): every array by the name that its family gives it, of the shape that the sizes ask for. Blocks of a GGUF
 * file go from its mapped pages into packed maps; others become floats, then elements of the model's type. What is packed is
 * freed or unmapped at once. */
#include "model_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 256, PARTS = 3 };

typedef struct loading {
    weights *w;
    model *m;
    complaint to;
} loading;

/* One matrix of a map: rows [first, first + out) of an array, or columns where matrices are [in, out]. */
typedef struct piece {
    const char *name;
    int64_t out, first, all;
} piece;

static int out_of_memory(const loading *l) { return complain(l->to, l->m->path, "out of memory"); }

static void name_array(const char *format, int64_t layer, const char *suffix, char name[NAME_MOST]) {
    const char *at = strstr(format, "%lld");
    if (at == NULL)
        snprintf(name, NAME_MOST, "%s%s", format, suffix);
    else
        snprintf(name, NAME_MOST, "%.*s%lld%s%s", (int)(at - format), format, (long long)layer, at + 4, suffix);
}

static bool has(const loading *l, const char *name) {
    int64_t rows, columns;
    return weights_shape(l->w, name, &rows, &columns);
}

static float *load_vector(const loading *l, const char *format, int64_t layer, const char *suffix, int64_t count) {
    char name[NAME_MOST];
    name_array(format, layer, suffix, name);
    return weights_load(l->w, name, 0, count, l->to);
}

static int load_norm(const loading *l, const char *format, int64_t layer, model_norm *n) {
    n->weight = load_vector(l, format, layer, ".weight", l->m->config.width);
    if (n->weight != NULL && l->m->config.gpt2)
        n->bias = load_vector(l, format, layer, ".bias", l->m->config.width);
    return n->weight != NULL && (n->bias != NULL || !l->m->config.gpt2) ? 0 : -1;
}

/* Of weights that are no blocks. */
static fovea_dtype float_type(const loading *l) {
    return l->m->types.weights != 0 ? l->m->types.weights : l->m->types.dtype;
}

/* As which an array is kept. */
static fovea_dtype kept_type(const loading *l, const char *name) {
    static const struct {
        gguf_type type;
        fovea_dtype dtype;
    } blocks[] = {{GGUF_Q8_0, FOVEA_DTYPE_Q8_0}, {GGUF_Q4_0, FOVEA_DTYPE_Q4_0}, {GGUF_Q4_1, FOVEA_DTYPE_Q4_1},
                  {GGUF_Q4_K, FOVEA_DTYPE_Q4_K}, {GGUF_Q5_K, FOVEA_DTYPE_Q5_K}, {GGUF_Q6_K, FOVEA_DTYPE_Q6_K}};
    gguf_type type;
    if (l->m->types.weights == 0 && weights_quantised(l->w, name, &type))
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
            if (blocks[i].type == type)
                return blocks[i].dtype;
    return float_type(l);
}

/* Floats become elements of that type, in place of the floats. */
static void *typed(const loading *l, float *values, int64_t count) {
    const fovea_dtype type = float_type(l);
    if (type == FOVEA_DTYPE_F32 || values == NULL)
        return values;
    void *to = malloc((size_t)(count * model_element(type)) + 1);
    if (to == NULL)
        out_of_memory(l);
    else if (fovea_convert(count, values, FOVEA_DTYPE_F32, to, type) != FOVEA_OK) {
        model_failed(l->m, "weights", l->to);
        free(to);
        to = NULL;
    }
    free(values);
    return to;
}

/* What a part of a map points to. */
typedef struct source {
    char *values;
    float *bias;
    gguf_rows blocks;
} source;

/* A matrix as a part of a map. */
static int load_matrix(const loading *l, const piece *p, const char *name, int64_t in, fovea_matrix *matrix,
                       source *from) {
    const bool in_out = l->m->config.names->in_out;
    const fovea_dtype type = kept_type(l, name);
    if (type != float_type(l)) {
        if (weights_map(l->w, name, p->all, in, &from->blocks, l->to) != 0)
            return -1;
        *matrix = fovea_matrix_out_in(from->blocks.data + p->first * from->blocks.row_bytes, type, p->out, in);
        l->m->quantised = true;
        return 0;
    }
    float *values = weights_load(l->w, name, in_out ? in : p->all, in_out ? p->all : in, l->to);
    from->values = typed(l, values, in * p->all);
    if (from->values == NULL)
        return -1;
    const int64_t size = model_element(type);
    *matrix = in_out ? fovea_matrix_in_out(from->values + p->first * size, type, in, p->out)
                     : fovea_matrix_out_in(from->values + p->first * in * size, type, p->out, in);
    if (in_out)
        matrix->in_stride = p->all;
    return 0;
}

/* A matrix and its bias, if the array has one. */
static int load_part(const loading *l, const piece *p, int64_t layer, int64_t in, fovea_linear_part *part,
                     source *from) {
    char name[NAME_MOST];
    name_array(p->name, layer, ".weight", name);
    if (load_matrix(l, p, name, in, &part->weight, from) != 0)
        return -1;
    name_array(p->name, layer, ".bias", name);
    if (has(l, name)) {
        from->bias = weights_load(l->w, name, 0, p->all, l->to);
        if (from->bias == NULL)
            return -1;
        part->bias = from->bias + p->first;
        part->bias_dtype = FOVEA_DTYPE_F32;
    }
    return 0;
}

static bool is_float(fovea_dtype type) {
    return type == FOVEA_DTYPE_F32 || type == FOVEA_DTYPE_BF16 || type == FOVEA_DTYPE_F16;
}

/* Parts of one type as one map, the last of the maps. */
static int pack_map(const loading *l, fovea_linear_desc *desc, const char *name, model_maps *maps) {
    model *m = l->m;
    int at = 0;
    while (maps->map[at] != NULL)
        at++;
    desc->arithmetic = m->types.has_arithmetic && !is_float(desc->parts[0].weight.dtype) ? m->types.arithmetic
                                                                                         : FOVEA_ARITHMETIC_DEFAULT;
    maps->parts[at] = (int)desc->part_count;
    if (fovea_linear_pack(m->ctx, desc, &maps->map[at]) != FOVEA_OK)
        return model_failed(m, name, l->to);
    m->token_bytes += (int64_t)fovea_linear_weight_bytes(maps->map[at]);
    return 0;
}

/* Packs parts as one map, or as several, each of parts of one type that follow each other. */
static int pack_maps(const loading *l, const fovea_linear_desc *all, const char *name, model_maps *maps) {
    const int count = (int)all->part_count;
    fovea_linear_desc desc = *all;
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (all->parts[end].weight.dtype != all->parts[first].weight.dtype)
                break;
        desc.part_count = end - first;
        desc.parts = all->parts + first;
        if (all->activation == FOVEA_ACTIVATION_SILU_GATED && end - first == 1) { /* model_gate_apart() */
            desc.activation = first == 0 ? FOVEA_ACTIVATION_SILU : FOVEA_ACTIVATION_NONE;
            desc.y_dtype = FOVEA_DTYPE_F32;
        }
        if (pack_map(l, &desc, name, maps) != 0)
            return -1;
    }
    return 0;
}

/* Loads and packs the pieces. y_dtype 0: the model's. */
static int load_map(const loading *l, const piece *pieces, int count, int64_t layer, int64_t in,
                    fovea_activation activation, fovea_dtype y_dtype, model_maps *maps) {
    fovea_linear_part parts[PARTS] = {0};
    source from[PARTS] = {0};
    int status = 0;
    for (int i = 0; status == 0 && i < count; i++)
        status = load_part(l, &pieces[i], layer, in, &parts[i], &from[i]);
    if (status == 0) {
        char name[NAME_MOST];
        name_array(pieces[0].name, layer, "", name);
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.dtype = l->m->types.dtype;
        desc.y_dtype = y_dtype;
        desc.activation = activation;
        desc.in_features = in;
        desc.part_count = count;
        desc.parts = parts;
        status = pack_maps(l, &desc, name, maps);
    }
    for (int i = 0; i < count; i++) {
        free(from[i].values);
        free(from[i].bias);
        gguf_unmap(&from[i].blocks);
    }
    return status;
}

static int load_qkv(const loading *l, int64_t layer, model_maps *maps) {
    const config *c = &l->m->config;
    const int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, all = q + 2 * kv;
    const char *const *names = c->names->qkv;
    const piece apart[PARTS] = {{names[0], q, 0, q}, {names[1], kv, 0, kv}, {names[2], kv, 0, kv}};
    const piece together[PARTS] = {{names[0], q, 0, all}, {names[0], kv, q, all}, {names[0], kv, q + kv, all}};
    return load_map(l, names[1] != NULL ? apart : together, PARTS, layer, c->width, FOVEA_ACTIVATION_NONE, 0, maps);
}

static int load_layer(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const int64_t heads = c->heads * c->head_dim;
    const piece out = {n->out, c->width, 0, c->width}, down = {n->down, c->width, 0, c->width};
    const piece up[] = {{n->gate, c->inner, 0, c->inner}, {n->up, c->inner, 0, c->inner}};
    const int gate = n->gate != NULL;
    if (load_norm(l, n->attention_norm, layer, &to->attention) != 0 ||
        load_norm(l, n->feed_norm, layer, &to->feed) != 0 || load_qkv(l, layer, &to->qkv) != 0 ||
        load_map(l, &out, 1, layer, heads, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32, &to->out) != 0 ||
        load_map(l, gate ? up : up + 1, 1 + gate, layer, c->width,
                 gate ? FOVEA_ACTIVATION_SILU_GATED : FOVEA_ACTIVATION_GELU_TANH, 0, &to->up) != 0)
        return -1;
    return load_map(l, &down, 1, layer, c->inner, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32, &to->down);
}

/* Does every row of the blocks stand for numbers? A head is asked by fovea_linear_pack(). */
static int check_words(const loading *l) {
    const model *m = l->m;
    float *row = malloc((size_t)m->config.width * sizeof *row);
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; row != NULL && status == FOVEA_OK && i < m->config.words; i++) {
        const fovea_matrix word =
            fovea_matrix_out_in(m->blocks.data + i * m->blocks.row_bytes, m->words_type, 1, m->config.width);
        status = fovea_dequantize(m->ctx, &word, row);
    }
    const bool memory = row != NULL;
    free(row);
    if (!memory)
        return out_of_memory(l);
    return status == FOVEA_OK ? 0 : model_failed(m, m->config.names->words, l->to);
}

/* The words, which are also the head unless the file has one. Blocks stay in the file: few rows of them are read. */
static int load_words(const loading *l) {
    model *m = l->m;
    const config *c = &m->config;
    const bool own = has(l, c->names->head);
    const piece head = {own ? c->names->head : c->names->words, c->words, 0, c->words};
    fovea_linear_part part = {0};
    source from = {0};
    m->words_type = kept_type(l, c->names->words);
    if (m->words_type != float_type(l)) {
        if (weights_map(l->w, c->names->words, c->words, c->width, &m->blocks, l->to) != 0 ||
            (own && check_words(l) != 0))
            return -1;
    } else {
        float *values = weights_load(l->w, c->names->words, c->words, c->width, l->to);
        if ((m->words = typed(l, values, c->words * c->width)) == NULL)
            return -1;
    }
    int status = 0;
    if (!own && m->words != NULL)
        part.weight = fovea_matrix_out_in(m->words, m->words_type, c->words, c->width);
    else
        status = load_matrix(l, &head, head.name, c->width, &part.weight, &from);
    if (status == 0) {
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.dtype = m->types.dtype;
        desc.y_dtype = FOVEA_DTYPE_F32;
        desc.in_features = c->width;
        desc.parts = &part;
        status = pack_maps(l, &desc, head.name, &m->head);
    }
    free(from.values);
    gguf_unmap(&from.blocks);
    return status;
}

static int load_positions(const loading *l) {
    model *m = l->m;
    config *c = &m->config;
    if (c->gpt2) {
        m->places = weights_load(l->w, c->names->places, c->most_tokens, c->width, l->to);
        return m->places != NULL ? 0 : -1;
    }
    float *divisors = NULL;
    if (has(l, "rope_freqs.weight") &&
        (divisors = weights_load(l->w, "rope_freqs.weight", 0, c->rope.rotary_dim / 2, l->to)) == NULL)
        return -1;
    c->rope.divisors = divisors;
    const fovea_status status = fovea_rope_create(&c->rope, &m->rope);
    c->rope.divisors = NULL;
    free(divisors);
    return status == FOVEA_OK ? 0 : model_failed(m, "rotary embedding", l->to);
}

static int load(loading *l) {
    model *m = l->m;
    if (config_read(l->w, &m->config, l->to) != 0 || load_words(l) != 0 || load_positions(l) != 0 ||
        load_norm(l, m->config.names->last, 0, &m->last) != 0)
        return -1;
    m->layers = calloc((size_t)m->config.layers, sizeof *m->layers);
    if (m->layers == NULL)
        return out_of_memory(l);
    for (int64_t i = 0; i < m->config.layers; i++)
        if (load_layer(l, i, &m->layers[i]) != 0)
            return -1;
    return weights_all_loaded(l->w, l->to);
}

int model_load(const fovea_context *ctx, const char *path, model_types types, model **out, complaint to) {
    loading l = {.to = to};
    *out = NULL;
    if (weights_open(path, &l.w, to) != 0)
        return -1;
    model *m = l.m = calloc(1, sizeof *m);
    int status = -1;
    if (m == NULL || (m->path = malloc(strlen(path) + 1)) == NULL)
        complain(to, path, "out of memory");
    else {
        strcpy(m->path, path);
        m->ctx = ctx;
        m->types = types;
        status = load(&l);
    }
    weights_close(l.w);
    if (status == 0)
        *out = m;
    else
        model_free(m);
    return status;
}

static void free_maps(model_maps *maps) {
    for (int i = 0; i < 3; i++)
        fovea_linear_destroy(maps->map[i]);
}

static void free_norm(model_norm *n) {
    free(n->weight);
    free(n->bias);
}

void model_free(model *m) {
    if (m == NULL)
        return;
    for (int64_t i = 0; m->layers != NULL && i < m->config.layers; i++) {
        model_layer *l = &m->layers[i];
        free_norm(&l->attention);
        free_norm(&l->feed);
        free_maps(&l->qkv);
        free_maps(&l->out);
        free_maps(&l->up);
        free_maps(&l->down);
    }
    free(m->layers);
    free_norm(&m->last);
    free(m->words);
    free(m->places);
    free_maps(&m->head);
    gguf_unmap(&m->blocks);
    fovea_rope_destroy(m->rope);
    free(m->path);
    free(m);
}

const config *model_config(const model *m) { return &m->config; }
int64_t model_token_bytes(const model *m) { return m->token_bytes; }
bool model_quantised(const model *m) { return m->quantised; }
