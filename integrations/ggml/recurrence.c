/* GATED_DELTA_NET, SSM_SCAN and SSM_CONV through fovea/recurrence.h, which reads and writes ggml's layouts in place.
 * A result of the first two is that of all tokens, [channel, head, token, sequence], and behind it the states: slot s
 * of K, [slot][sequence][head][row of the state], is that before the last s tokens. */
#include "elementwise.h"

static bool has_shape(const struct ggml_tensor *t, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return fg_is_strided(t) && t->ne[0] == n0 && t->ne[1] == n1 && t->ne[2] == n2 && t->ne[3] == n3;
}

/* Are all elements next to one another, in order? */
static bool is_dense(const struct ggml_tensor *t) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < 4; bytes *= (size_t)t->ne[i++])
        if (t->ne[i] != 1 && t->nb[i] != bytes)
            return false;
    return true;
}

static int64_t elements(const struct ggml_tensor *t) { return t->ne[0] * fg_rows(t); }

/* Releases before snapshots have no such parameter: it is 0, and they keep the last state. */
static int64_t slots_of(const struct ggml_tensor *op) { return op->op_params[0] > 1 ? op->op_params[0] : 1; }

/* [batch][token][head][channel] */
static fovea_tensor results(float *data, int64_t batch, int64_t heads, int64_t tokens, int64_t channels) {
    return (fovea_tensor){.data = data,
                          .dtype = FOVEA_DTYPE_F32,
                          .shape = {batch, heads, tokens, channels},
                          .stride = {tokens * heads * channels, channels, heads * channels, 1}};
}

/* ---------------------------------------------------------------------------------------------- GATED_DELTA_NET -- */

/* v [n, heads, tokens, sequences], q and k with fewer heads, whose head h % heads is read; q and k of one sequence are
 * those of all. */
bool fg_gated_delta_net_serves(const struct ggml_tensor *op) {
    for (int i = 0; i < 6; i++)
        if (!op->src[i] || !fg_is_strided(op->src[i]))
            return false;
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *gate = op->src[3];
    const int64_t n = v->ne[0], heads = v->ne[1], tokens = v->ne[2], sequences = v->ne[3];
    return elements(v) > 0 && (k->ne[3] == sequences || k->ne[3] == 1) && k->ne[1] > 0 && heads % k->ne[1] == 0 &&
           has_shape(k, n, k->ne[1], tokens, k->ne[3]) && has_shape(q, n, k->ne[1], tokens, k->ne[3]) &&
           (gate->ne[0] == 1 || gate->ne[0] == n) && has_shape(gate, gate->ne[0], heads, tokens, sequences) &&
           has_shape(op->src[4], 1, heads, tokens, sequences) && has_shape(op->src[5], n, n, heads, sequences) &&
           fg_is_strided(op) && is_dense(op) && elements(op) == elements(v) + slots_of(op) * n * n * heads * sequences;
}

static fovea_tensor for_all(const struct ggml_tensor *t, int64_t sequences) {
    fovea_tensor v = fg_heads_tensor(t);
    v.stride[0] = t->ne[3] == 1 ? 0 : v.stride[0];
    v.shape[0] = sequences;
    return v;
}

enum ggml_status fg_gated_delta_net_compute(fg_backend *backend, struct ggml_tensor *op) {
    const struct ggml_tensor *v = op->src[2];
    const int64_t n = v->ne[0], heads = v->ne[1], sequences = v->ne[3];
    const fg_team *team = fg_backend_team_for(backend, 8.0 * (double)n * (double)elements(v));
    fovea_states states;
    fovea_states_init(&states);
    states.before = fg_tensor(op->src[5]);
    states.slots = slots_of(op);
    states.after =
        fovea_tensor_bhtd((float *)op->data + elements(v), FOVEA_DTYPE_F32, states.slots * sequences, heads, n, n);
    states.order = FOVEA_STATE_COLUMNS;
    fovea_delta_args args;
    fovea_delta_args_init(&args);
    args.q = for_all(op->src[0], sequences);
    args.k = for_all(op->src[1], sequences);
    args.v = fg_heads_tensor(v);
    args.gate = fg_heads_tensor(op->src[3]);
    args.beta = fg_heads_tensor(op->src[4]);
    args.out = results(op->data, sequences, heads, v->ne[2], n);
    args.tiled_heads = 1;
    args.states = &states;
    if (!team)
        return GGML_STATUS_FAILED;
    const size_t size = fovea_gated_delta_rule_workspace_size(team->context, &args);
    void *workspace = fg_memory_get(&backend->workspace, size);
    return workspace ? fg_status(fovea_gated_delta_rule(team->context, &args, workspace, size), "GATED_DELTA_NET")
                     : GGML_STATUS_ALLOC_FAILED;
}

/* ----------------------------------------------------------------------------------------------------- SSM_SCAN -- */

enum { STATES, X, DT, A, B, C, IDS, SCAN_SOURCES };

/* x [channels, heads, tokens, sequences]; dt [heads, tokens, sequences]; a [1, heads], or Mamba 1's [rows, heads] with
 * heads of one channel; b and c [rows, groups, tokens, sequences]; states [rows, channels, heads, any], those of
 * ids [sequences]. */
bool fg_ssm_scan_serves(const struct ggml_tensor *op) {
    for (int i = 0; i < SCAN_SOURCES; i++)
        if (!op->src[i] || (i != IDS && !fg_is_strided(op->src[i])))
            return false;
    const struct ggml_tensor *x = op->src[X], *b = op->src[B], *a = op->src[A], *s = op->src[STATES];
    const int64_t rows = s->ne[0], heads = x->ne[1], tokens = x->ne[2], sequences = x->ne[3], groups = b->ne[1];
    const bool one_head = a->ne[0] != 1;
    return elements(x) > 0 && groups > 0 && heads % groups == 0 && has_shape(s, rows, x->ne[0], heads, s->ne[3]) &&
           has_shape(op->src[DT], heads, tokens, sequences, 1) && has_shape(a, one_head ? rows : 1, heads, 1, 1) &&
           is_dense(a) && has_shape(b, rows, groups, tokens, sequences) &&
           has_shape(op->src[C], rows, groups, tokens, sequences) &&
           (one_head ? x->ne[0] == 1 && groups == 1 && slots_of(op) == 1 && is_dense(s) && x->nb[1] == x->nb[0]
                     : x->ne[0] > 1) &&
           fg_is_named(op->src[IDS], "i32") && op->src[IDS]->ne[0] == sequences &&
           op->src[IDS]->nb[0] == sizeof(int32_t) && fg_is_strided(op) && is_dense(op) &&
           elements(op) == elements(x) + slots_of(op) * rows * x->ne[0] * heads * sequences;
}

/* Sequences [first, first + count). */
static fovea_tensor part_of(fovea_tensor t, int64_t first, int64_t count) {
    t.data = (float *)t.data + first * t.stride[0];
    t.shape[0] = count;
    return t;
}

/* In Mamba 1 ggml's heads are channels of one head. */
static fovea_tensor merged(fovea_tensor t) {
    t.shape[3] *= t.shape[1];
    t.stride[3] = 1;
    t.shape[1] = 1;
    return t;
}

static fovea_tensor step_sizes(const struct ggml_tensor *dt) {
    return (fovea_tensor){.data = dt->data,
                          .dtype = FOVEA_DTYPE_F32,
                          .shape = {dt->ne[2], dt->ne[0], dt->ne[1], 1},
                          .stride = {(int64_t)(dt->nb[2] / sizeof(float)), 1, (int64_t)(dt->nb[1] / sizeof(float)), 1}};
}

/* Sequences [first, first + count), whose states before follow one another. */
static enum ggml_status scan(fg_backend *backend, const fg_team *team, const struct ggml_tensor *op, int64_t first,
                             int64_t count, int64_t id) {
    const struct ggml_tensor *s = op->src[STATES], *x = op->src[X], *a = op->src[A];
    const int64_t channels = x->ne[0], heads = x->ne[1], sequences = x->ne[3], rows = s->ne[0];
    fovea_states states;
    fovea_states_init(&states);
    states.before = part_of(fg_tensor(s), id, count);
    states.slots = slots_of(op);
    states.after = fovea_tensor_bhtd((float *)op->data + elements(x) + first * heads * channels * rows, FOVEA_DTYPE_F32,
                                     states.slots * count, heads, channels, rows);
    if (count < sequences) /* one: its slots are a stride of all sequences apart */
        states.after.stride[0] *= sequences;
    states.order = FOVEA_STATE_COLUMNS;
    fovea_scan_args args;
    fovea_scan_args_init(&args);
    args.x = part_of(fg_heads_tensor(x), first, count);
    args.dt = part_of(step_sizes(op->src[DT]), first, count);
    args.b = part_of(fg_heads_tensor(op->src[B]), first, count);
    args.c = part_of(fg_heads_tensor(op->src[C]), first, count);
    args.out = part_of(results(op->data, sequences, heads, x->ne[2], channels), first, count);
    args.a = a->data;
    args.states = &states;
    if (a->ne[0] != 1) {
        args.x = merged(args.x);
        args.dt = merged(args.dt);
        args.out = merged(args.out);
        states.before = fovea_tensor_bhtd(states.before.data, FOVEA_DTYPE_F32, count, 1, heads, rows);
        states.after = fovea_tensor_bhtd(states.after.data, FOVEA_DTYPE_F32, count, 1, heads, rows);
    }
    const size_t size = fovea_selective_scan_workspace_size(team->context, &args);
    void *workspace = fg_memory_get(&backend->workspace, size);
    return workspace ? fg_status(fovea_selective_scan(team->context, &args, workspace, size), "SSM_SCAN")
                     : GGML_STATUS_ALLOC_FAILED;
}

enum ggml_status fg_ssm_scan_compute(fg_backend *backend, struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[X];
    const int32_t *ids = op->src[IDS]->data;
    const int64_t sequences = x->ne[3];
    const fg_team *team = fg_backend_team_for(backend, 6.0 * (double)op->src[STATES]->ne[0] * (double)elements(x));
    bool ascend = true;
    for (int64_t i = 0; i < sequences; i++) {
        if (!fg_in_range(op, ids[i], op->src[STATES]->ne[3]))
            return GGML_STATUS_FAILED;
        ascend = ascend && ids[i] == ids[0] + i;
    }
    const int64_t count = ascend ? sequences : 1;
    enum ggml_status status = team ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
    for (int64_t i = 0; i < sequences && status == GGML_STATUS_SUCCESS; i += count)
        status = scan(backend, team, op, i, count, ids[i]);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- SSM_CONV -- */

/* x [taps - 1 + tokens, channels, sequences], the state first; weights [taps, channels]; op [channels, tokens,
 * sequences] */
bool fg_ssm_conv_serves(const struct ggml_tensor *op) {
    enum { MOST_TAPS = 64 };
    const struct ggml_tensor *x = op->src[0], *weights = op->src[1];
    if (!x || !weights || !fg_is_strided(x) || !fg_is_strided(weights) || !fg_is_strided(op))
        return false;
    const int64_t taps = weights->ne[0], channels = weights->ne[1];
    return taps >= 1 && taps <= MOST_TAPS && channels > 0 && has_shape(weights, taps, channels, 1, 1) &&
           is_dense(weights) && has_shape(x, taps - 1 + op->ne[1], channels, op->ne[2], 1) &&
           has_shape(op, channels, op->ne[1], op->ne[2], 1);
}

enum ggml_status fg_ssm_conv_compute(fg_backend *backend, struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0];
    const int64_t taps = op->src[1]->ne[0], channels = op->ne[0], tokens = op->ne[1], sequences = op->ne[2];
    const fg_team *team = fg_backend_team_for(backend, 2.0 * (double)taps * (double)elements(op));
    const fovea_tensor all = {
        .data = x->data,
        .dtype = FOVEA_DTYPE_F32,
        .shape = {sequences, 1, channels, taps - 1},
        .stride = {(int64_t)(x->nb[2] / sizeof(float)), 0, (int64_t)(x->nb[1] / sizeof(float)), 1}};
    fovea_states states;
    fovea_states_init(&states);
    states.before = all;
    states.order = FOVEA_STATE_COLUMNS;
    fovea_conv_args args;
    fovea_conv_args_init(&args);
    args.x = all;
    args.x.data = (float *)x->data + taps - 1;
    args.x.shape[3] = tokens;
    args.x_channels_first = 1;
    args.out =
        (fovea_tensor){.data = op->data,
                       .dtype = FOVEA_DTYPE_F32,
                       .shape = {sequences, 1, tokens, channels},
                       .stride = {(int64_t)(op->nb[2] / sizeof(float)), 0, (int64_t)(op->nb[1] / sizeof(float)), 1}};
    args.weight = op->src[1]->data;
    args.taps = taps;
    args.states = taps > 1 ? &states : NULL;
    if (!team)
        return GGML_STATUS_FAILED;
    const size_t size = fovea_causal_conv_workspace_size(team->context, &args);
    void *workspace = fg_memory_get(&backend->workspace, size);
    return workspace ? fg_status(fovea_causal_conv(team->context, &args, workspace, size), "SSM_CONV")
                     : GGML_STATUS_ALLOC_FAILED;
}
