/* A layer of the gated delta rule (load.h), as Qwen 3.5 has it. */
#include "load.h"

#include <math.h>

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

int load_delta(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const int64_t heads = c->delta_heads, values = heads * c->delta_dim;
    const int64_t mixed = 2 * c->delta_k_heads * c->delta_dim + values;
    const int64_t out[] = {mixed, values, heads, heads};
    const piece back = {n->delta_out, c->width, 0, c->width, false};
    const map_kind in_kind = {c->width, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32},
                   out_kind = {values, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    piece in[LOAD_PARTS];
    char name[LOAD_NAME];
    for (int i = 0; i < LOAD_PARTS; i++)
        in[i] = (piece){n->delta_in[i], out[i], 0, out[i], false};
    load_name(n->delta_conv, layer, ".weight", name);
    to->conv = weights_load(l->m->ctx, l->w, name, mixed, c->taps, l->to);
    if (to->conv == NULL || (to->dt = load_vector(l, n->delta_dt, layer, ".bias", heads)) == NULL)
        return -1;
    return load_decay(l, layer, to) != 0 || load_norm(l, n->delta_norm, layer, c->delta_dim, &to->delta_norm) != 0 ||
                   load_map(l, in, LOAD_PARTS, layer, &in_kind, &to->delta_in) != 0 ||
                   load_map(l, &back, 1, layer, &out_kind, &to->out) != 0
               ? -1
               : 0;
}
