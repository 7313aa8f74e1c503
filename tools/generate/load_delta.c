/* A layer of the gated delta rule (load.h), as Qwen 3.5 and Qwen3-Next have it. */
#include "load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* GGUF has -exp of what the model learned. */
static int load_decay(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    if ((to->a_log = load_vector(l, c->names->delta_a, layer, "", c->delta_heads)) == NULL)
        return -1;
    for (int64_t i = 0; i < c->delta_heads; i++) {
        if (!(to->a_log[i] < 0.0f))
            return complain(l->to, l->m->path, "blk.%lld.ssm_a has %g, not below 0", (long long)layer,
                            (double)to->a_log[i]);
        to->a_log[i] = (float)log(-(double)to->a_log[i]);
    }
    return 0;
}

/* A matrix that has rows of several kinds for each head of keys becomes one with all rows of a kind together. */
static int regroup(const loading *l, const int64_t *rows, int kinds, fovea_matrix *matrix, source *from) {
    const int64_t heads = l->m->config.delta_k_heads, all = matrix->out / heads, bytes = from->pages.row_bytes;
    char *values = malloc((size_t)(matrix->out * bytes)), *to = values;
    if (values == NULL)
        return load_out_of_memory(l);
    for (int64_t kind = 0, first = 0; kind < kinds; first += rows[kind++])
        for (int64_t head = 0; head < heads; head++, to += rows[kind] * bytes)
            memcpy(to, (const char *)matrix->data + (head * all + first) * bytes, (size_t)(rows[kind] * bytes));
    load_release(from);
    *from = (source){.values = values, .pages.row_bytes = bytes};
    matrix->data = values;
    return 0;
}

/* Two parts of a map in one such matrix. */
static int load_grouped(const loading *l, const char *format, int64_t layer, const int64_t *rows, int kinds,
                        const int64_t out[2], const map_kind *kind, model_maps *maps) {
    const piece both = {format, out[0] + out[1], 0, out[0] + out[1], false};
    char name[LOAD_NAME];
    fovea_linear_part parts[2] = {0};
    source from = {0};
    load_name(format, layer, ".weight", name);
    int status = load_matrix(l, &both, name, kind->in, &parts[0].weight, &from);
    if (status == 0)
        status = regroup(l, rows, kinds, &parts[0].weight, &from);
    if (status == 0) {
        parts[1] = parts[0];
        parts[0].weight.out = out[0];
        parts[1].weight.out = out[1];
        parts[1].weight.data = from.values + out[0] * from.pages.row_bytes;
        status = load_pack(l, parts, 2, name, kind, maps);
    }
    load_release(&from);
    return status;
}

static int load_in(const loading *l, int64_t layer, const int64_t out[LOAD_PARTS], model_maps *maps) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const map_kind kind = {c->width, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    const int64_t each = c->delta_heads / c->delta_k_heads, values = each * c->delta_dim;
    const int64_t both_rows[] = {c->delta_dim, c->delta_dim, values, values}, rows[] = {each, each};
    piece in[LOAD_PARTS];
    char name[LOAD_NAME];
    for (int i = 0; i < LOAD_PARTS; i++)
        in[i] = (piece){n->delta_in[i], out[i], 0, out[i], false};
    if (!n->delta_grouped)
        return load_map(l, in, LOAD_PARTS, layer, &kind, maps);
    load_name(n->delta_in_both, layer, ".weight", name);
    const int status = load_has(l, name) ? load_grouped(l, n->delta_in_both, layer, both_rows, 4, out, &kind, maps)
                                         : load_map(l, in, 2, layer, &kind, maps);
    return status == 0 ? load_grouped(l, n->delta_in[2], layer, rows, 2, out + 2, &kind, maps) : status;
}

int load_delta(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const int64_t heads = c->delta_heads, values = heads * c->delta_dim;
    const int64_t mixed = 2 * c->delta_k_heads * c->delta_dim + values;
    const int64_t out[] = {mixed, values, heads, heads};
    const piece back = {n->delta_out, c->width, 0, c->width, false};
    const map_kind kind = {values, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    char name[LOAD_NAME];
    load_name(n->delta_conv, layer, ".weight", name);
    to->conv = weights_load(l->m->ctx, l->w, name, mixed, c->taps, l->to);
    if (to->conv == NULL || (to->dt = load_vector(l, n->delta_dt, layer, ".bias", heads)) == NULL)
        return -1;
    return load_decay(l, layer, to) != 0 || load_norm(l, n->delta_norm, layer, c->delta_dim, &to->delta_norm) != 0 ||
                   load_in(l, layer, out, &to->delta_in) != 0 || load_map(l, &back, 1, layer, &kind, &to->out) != 0
               ? -1
               : 0;
}
