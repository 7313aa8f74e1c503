/* Layers of the gated delta rule in a session (session_private.h). Between their maps are float32 numbers. The
 * convolution and the rule have a state each, which the cache keeps for each sequence. */
#include "session_private.h"

#include <stdlib.h>

static fovea_states states_of(const session *s, int64_t layer, int which) {
    fovea_states states;
    fovea_states_init(&states);
    states.cu_seqlens = s->starts;
    states.sequences = s->pieces;
    states.cache = s->states;
    states.cache_state = 2 * s->m->config.place[layer] + which;
    states.cache_sequences = s->state_run;
    return states;
}

static int64_t mixed_channels(const config *c) { return (2 * c->delta_k_heads + c->delta_heads) * c->delta_dim; }

static fovea_conv_args conv_args(const session *s, int64_t layer, int64_t count, const fovea_states *states) {
    const config *c = &s->m->config;
    fovea_conv_args args;
    fovea_conv_args_init(&args);
    args.x = session_rows(s->mixed, FOVEA_DTYPE_F32, count, 1, mixed_channels(c));
    args.out = session_rows(s->mixed_conv, FOVEA_DTYPE_F32, count, 1, mixed_channels(c));
    args.weight = s->m->layers[layer].conv;
    args.taps = c->taps;
    args.silu = 1;
    args.states = states;
    return args;
}

/* Heads of the mixed rows, from one on. */
static fovea_tensor heads_at(const session *s, int64_t count, int64_t first, int64_t heads) {
    const config *c = &s->m->config;
    fovea_tensor t = session_rows(s->mixed_conv + first * c->delta_dim, FOVEA_DTYPE_F32, count, heads, c->delta_dim);
    t.stride[2] = mixed_channels(c);
    return t;
}

static fovea_delta_args delta_args(const session *s, int64_t layer, int64_t count, const fovea_states *states) {
    const config *c = &s->m->config;
    const model_layer *l = &s->m->layers[layer];
    const int64_t heads = c->delta_heads, k_heads = c->delta_k_heads;
    fovea_delta_args args;
    fovea_delta_args_init(&args);
    args.q = heads_at(s, count, 0, k_heads);
    args.k = heads_at(s, count, k_heads, k_heads);
    args.v = heads_at(s, count, 2 * k_heads, heads);
    args.gate = session_rows(s->decay, FOVEA_DTYPE_F32, count, heads, 1);
    args.beta = session_rows(s->beta, FOVEA_DTYPE_F32, count, heads, 1);
    args.out = session_rows(s->delta, FOVEA_DTYPE_F32, count, heads, c->delta_dim);
    args.a_log = l->a_log;
    args.dt_bias = l->dt;
    args.beta_sigmoid = 1;
    args.tiled_heads = !c->names->delta_grouped;
    args.norm = FOVEA_L2_RSQRT;
    args.states = states;
    return args;
}

fovea_status session_run_delta(const session *s, int64_t layer, int64_t count, fovea_tensor normed) {
    const config *c = &s->m->config;
    const model_layer *l = &s->m->layers[layer];
    const fovea_states conv_states = states_of(s, layer, 0), delta_states = states_of(s, layer, 1);
    const fovea_conv_args conv = conv_args(s, layer, count, &conv_states);
    const fovea_delta_args delta = delta_args(s, layer, count, &delta_states);
    const fovea_tensor z = session_rows(s->z, FOVEA_DTYPE_F32, count, c->delta_heads, c->delta_dim);
    const fovea_tensor in[] = {conv.x, z, delta.beta, delta.gate};
    fovea_activate_args gate;
    fovea_activate_args_init(&gate);
    gate.x = z;
    gate.up = delta.out;
    gate.y = session_rows(s->heads, s->m->options.dtype, count, c->delta_heads, c->delta_dim);
    gate.activation = FOVEA_ACTIVATION_SILU;
    fovea_status status = session_products(s, &l->delta_in, normed, in, false);
    if (status == FOVEA_OK)
        status = fovea_causal_conv(s->m->ctx, &conv, s->workspace, s->workspace_size);
    if (status == FOVEA_OK)
        status = fovea_gated_delta_rule(s->m->ctx, &delta, s->workspace, s->workspace_size);
    if (status == FOVEA_OK)
        status = session_normalize(s, &l->delta_norm, delta.out, delta.out);
    return status == FOVEA_OK ? fovea_activate(s->m->ctx, &gate) : status;
}

/* -------------------------------------------------------------------------------------------------------- memory -- */

static int make_cache(session *s, int64_t layers, complaint to) {
    const config *c = &s->m->config;
    int64_t floats[2 * CONFIG_LAYERS_MOST];
    fovea_state_cache_desc desc;
    fovea_state_cache_desc_init(&desc);
    for (int64_t i = 0; i < layers; i++) {
        floats[2 * i] = c->taps > 1 ? (c->taps - 1) * mixed_channels(c) : 1;
        floats[2 * i + 1] = c->delta_heads * c->delta_dim * c->delta_dim;
        s->state_bytes += s->sequences * (floats[2 * i] + floats[2 * i + 1]) * (int64_t)sizeof(float);
    }
    desc.states = 2 * layers;
    desc.floats = floats;
    desc.max_sequences = s->sequences;
    if (fovea_state_cache_create(&desc, &s->states) != FOVEA_OK)
        return session_failed(s, "states", to);
    for (int64_t i = 0; i < s->sequences; i++) {
        if (fovea_state_cache_add(s->states, &s->state[i]) != FOVEA_OK)
            return session_failed(s, "states", to);
        s->state_run[i] = s->state[i];
    }
    return 0;
}

static void grow(size_t *workspace, size_t size) { *workspace = size > *workspace ? size : *workspace; }

static void size_workspace(session *s, int64_t layer, size_t *workspace) {
    fovea_norm_args norm;
    fovea_norm_args_init(&norm);
    s->pieces = s->sequences;
    const fovea_states conv_states = states_of(s, layer, 0), delta_states = states_of(s, layer, 1);
    const fovea_conv_args conv = conv_args(s, layer, SESSION_CHUNK, &conv_states);
    const fovea_delta_args delta = delta_args(s, layer, SESSION_CHUNK, &delta_states);
    norm.x = norm.y = delta.out;
    grow(workspace, fovea_norm_workspace_size(s->m->ctx, &norm));
    grow(workspace, fovea_causal_conv_workspace_size(s->m->ctx, &conv));
    grow(workspace, fovea_gated_delta_rule_workspace_size(s->m->ctx, &delta));
}

int session_states_make(session *s, size_t *workspace, complaint to) {
    const config *c = &s->m->config;
    const int64_t layers = c->layers - c->attention_layers;
    const size_t rows = SESSION_CHUNK * sizeof(float), values = (size_t)(c->delta_heads * c->delta_dim) * rows;
    if (layers == 0)
        return 0;
    s->state = calloc((size_t)s->sequences, sizeof *s->state);
    s->state_run = calloc((size_t)s->sequences, sizeof *s->state_run);
    s->mixed = malloc((size_t)mixed_channels(c) * rows);
    s->mixed_conv = malloc((size_t)mixed_channels(c) * rows);
    s->z = malloc(values);
    s->delta = malloc(values);
    s->beta = malloc((size_t)c->delta_heads * rows);
    s->decay = malloc((size_t)c->delta_heads * rows);
    if (!s->state || !s->state_run || !s->mixed || !s->mixed_conv || !s->z || !s->delta || !s->beta || !s->decay)
        return complain(to, s->m->path, "out of memory");
    if (make_cache(s, layers, to) != 0)
        return -1;
    int64_t layer = 0;
    while (!c->recurrent[layer])
        layer++;
    size_workspace(s, layer, workspace);
    return 0;
}

void session_states_free(session *s) {
    void *const memory[] = {s->state, s->state_run, s->mixed, s->mixed_conv, s->z, s->delta, s->beta, s->decay};
    fovea_state_cache_destroy(s->states);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
}
