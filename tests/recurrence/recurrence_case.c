#include "recurrence_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_dtype some_dtype(rng *r) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    return types[rng_below(r, 4)];
}

static float *some_floats(rng *r, int64_t n, float low, float high) {
    float *x = must_alloc(n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_uniform(r, low, high);
    return x;
}

/* A tensor of random numbers; by_tokens: as heads of tokens, else as tokens of heads. */
static void add_tensor(recurrence_case *c, rng *r, int which, int64_t heads, int64_t channels, float low, float high) {
    const int64_t n = c->batch * c->tokens * heads * channels;
    const fovea_dtype dtype = some_dtype(r);
    float *x = some_floats(r, n, low, high);
    void *typed = must_alloc(n + 1, sizeof(float));
    convert_elements(n, x, FOVEA_DTYPE_F32, typed, dtype);
    convert_elements(n, typed, dtype, x, FOVEA_DTYPE_F32);
    c->floats[which] = x;
    c->tensor[which] = fovea_tensor_bthd(typed, dtype, c->batch, c->tokens, heads, channels);
}

/* Channels of the first head of a token become 0. */
static void clear_row(recurrence_case *c, int which, int64_t token) {
    const fovea_tensor *t = &c->tensor[which];
    const size_t n = (size_t)t->shape[3];
    memset(c->floats[which] + token * t->stride[2], 0, n * sizeof(float));
    memset((char *)t->data + token * t->stride[2] * fv_dtype_size(t->dtype), 0, n * (size_t)fv_dtype_size(t->dtype));
}

static int64_t some_size(rng *r, int64_t most) {
    const int64_t drawn[] = {1, 16, 32, 64, rng_between(r, 1, most), rng_between(r, 1, 8)};
    return drawn[rng_below(r, 6)];
}

static void make_delta(recurrence_case *c, rng *r) {
    const int64_t k_heads = rng_between(r, 1, 3), ratio = rng_between(r, 1, 3), queries = rng_between(r, 2, 3);
    const int64_t gates = rng_below(r, 2) ? 1 : c->rows;
    const bool several = rng_below(r, 3) == 0, gate = rng_below(r, 4), computed = gate && rng_below(r, 2);
    c->heads = k_heads * ratio;
    const int64_t q_heads = several ? c->heads * queries : rng_below(r, 2) ? k_heads : c->heads;
    fovea_delta_args *a = &c->delta;
    fovea_delta_args_init(a);
    add_tensor(c, r, T_OUT, several ? q_heads : c->heads, c->columns, 0, 0);
    add_tensor(c, r, T_Q, q_heads, c->rows, -1, 1);
    add_tensor(c, r, T_K, k_heads, c->rows, -1, 1);
    clear_row(c, T_Q, rng_below(r, c->tokens));
    clear_row(c, T_K, rng_below(r, c->tokens));
    add_tensor(c, r, T_V, c->heads, c->columns, -1, 1);
    if (gate)
        add_tensor(c, r, T_GATE, c->heads, gates, computed ? -4 : -2, computed ? (rng_below(r, 2) ? 25 : 1) : 0);
    if (rng_below(r, 4))
        add_tensor(c, r, T_BETA, rng_below(r, 2) ? 1 : c->heads, 1, 0, 1);
    c->a = computed ? some_floats(r, c->heads, -3, 1) : NULL;
    c->bias = computed && rng_below(r, 4) ? some_floats(r, c->heads * gates, -1, 1) : NULL;
    a->beta_sigmoid = (int)rng_below(r, 2);
    a->beta_scale = rng_below(r, 2) ? 1 : 2;
    a->tiled_heads = (int)rng_below(r, 2);
    a->no_delta = (int)rng_below(r, 3) == 0;
    a->norm = a->no_delta && rng_below(r, 3) ? FOVEA_L2_NONE /* long keys make other states explode */
                                             : (fovea_l2)rng_between(r, 1, 2);
    a->scale = rng_below(r, 2) ? 0 : 0.3;
    if (rng_below(r, 4) == 0) {
        a->dt_min = 0.01;
        a->dt_max = 0.5;
    }
    snprintf(c->title, sizeof c->title,
             "delta rule, heads %" PRId64 " of q, %" PRId64 " of k, %" PRId64 " of v, gate %s of %" PRId64
             ", norm %d, no_delta %d, tiled %d",
             q_heads, k_heads, c->heads, gate ? (computed ? "computed" : "given") : "absent", gates, (int)a->norm,
             a->no_delta, a->tiled_heads);
}

static void make_scan(recurrence_case *c, rng *r) {
    const bool per_channel = rng_below(r, 2) || c->columns == 1;
    const int64_t groups = per_channel ? 1 : rng_between(r, 1, 2);
    c->heads = groups * (per_channel ? 1 : rng_between(r, 1, 3));
    const int64_t width = per_channel ? c->columns : 1;
    fovea_scan_args *a = &c->scan;
    fovea_scan_args_init(a);
    add_tensor(c, r, T_OUT, c->heads, c->columns, 0, 0);
    add_tensor(c, r, S_X, c->heads, c->columns, -1, 1);
    add_tensor(c, r, S_DT, c->heads, width, -3, 1);
    add_tensor(c, r, S_B, groups, c->rows, -1, 1);
    add_tensor(c, r, S_C, groups, c->rows, -1, 1);
    if (rng_below(r, 2))
        add_tensor(c, r, S_Z, c->heads, c->columns, -3, 3);
    c->a = some_floats(r, c->heads * width * (per_channel ? c->rows : 1), -3, -0.1f);
    c->d = rng_below(r, 2) ? some_floats(r, c->heads * width, -1, 1) : NULL;
    c->bias = rng_below(r, 2) ? some_floats(r, c->heads * width, -1, 1) : NULL;
    a->dt_softplus = rng_below(r, 4) != 0;
    if (rng_below(r, 3) == 0) {
        a->dt_min = 0.1;
        a->dt_max = 0.6;
    }
    snprintf(c->title, sizeof c->title, "scan, %" PRId64 " heads, %" PRId64 " groups, %s", c->heads, groups,
             per_channel ? "dt for each channel" : "dt for each head");
}

static void make_conv(recurrence_case *c, rng *r) {
    fovea_conv_args *a = &c->conv;
    fovea_conv_args_init(a);
    a->taps = rng_between(r, 1, 6);
    c->heads = 1;
    c->rows = a->taps - 1;
    c->columns = rng_below(r, 4) ? c->columns : rng_between(r, 250, 600);
    add_tensor(c, r, T_OUT, 1, c->columns, 0, 0);
    add_tensor(c, r, C_X, 1, c->columns, -1, 1);
    c->a = some_floats(r, c->columns * a->taps, -1, 1);
    c->bias = rng_below(r, 2) ? some_floats(r, c->columns, -1, 1) : NULL;
    a->silu = (int)rng_below(r, 2);
    snprintf(c->title, sizeof c->title, "convolution of %" PRId64 " taps%s", a->taps, a->silu ? ", SiLU" : "");
}

recurrence_case *recurrence_case_of(recurrence kind, int64_t tokens, rng *r) {
    recurrence_case *c = must_alloc(1, sizeof *c);
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->batch = rng_between(r, 1, 3);
    c->tokens = tokens > 0 ? tokens : rng_below(r, 4) ? rng_between(r, 1, 12) : rng_between(r, 30, 75);
    c->rows = some_size(r, 40);
    c->columns = some_size(r, 100);
    (kind == DELTA ? make_delta : kind == SCAN ? make_scan : make_conv)(c, r);
    const int64_t n = c->batch * recurrence_state_size(c);
    c->state = some_floats(r, n, -1, 1);
    snprintf(c->title + strlen(c->title), sizeof c->title - strlen(c->title),
             ", batch %" PRId64 ", %" PRId64 " tokens, states %" PRId64 " x %" PRId64, c->batch, c->tokens, c->rows,
             c->columns);
    return c;
}

recurrence_case *recurrence_case_random(recurrence kind, rng *r) { return recurrence_case_of(kind, 0, r); }

void recurrence_case_free(recurrence_case *c) {
    for (int i = 0; i < T_TENSORS; i++) {
        free(c->tensor[i].data);
        free(c->floats[i]);
    }
    free(c->a);
    free(c->d);
    free(c->bias);
    free(c->state);
    free(c);
}

int64_t recurrence_bytes(const recurrence_case *c) {
    const int64_t *s = c->tensor[T_OUT].shape;
    return s[0] * s[1] * s[2] * s[3] * fv_dtype_size(c->tensor[T_OUT].dtype);
}

int64_t recurrence_state_size(const recurrence_case *c) { return c->heads * c->rows * c->columns; }

static fovea_tensor part(fovea_tensor t, int64_t sequence, int64_t first, int64_t count) {
    if (!t.data)
        return t;
    t = fovea_tensor_tokens(t, first, count);
    if (sequence >= 0) {
        t.data = (char *)t.data + sequence * t.stride[0] * fv_dtype_size(t.dtype);
        t.shape[0] = 1;
    }
    return t;
}

static void fill(const recurrence_case *c, int64_t sequence, int64_t first, int64_t count, fovea_tensor out,
                 const fovea_states *states, recurrence_case *to) {
    *to = *c;
    fovea_tensor t[T_TENSORS];
    for (int i = 0; i < T_TENSORS; i++)
        t[i] = part(i == T_OUT ? out : c->tensor[i], sequence, first, count);
    fovea_delta_args *d = &to->delta;
    d->q = t[T_Q];
    d->k = t[T_K];
    d->v = t[T_V];
    d->gate = t[T_GATE];
    d->beta = t[T_BETA];
    d->out = t[T_OUT];
    d->a_log = c->a;
    d->dt_bias = c->bias;
    d->states = states;
    fovea_scan_args *s = &to->scan;
    s->x = t[S_X];
    s->dt = t[S_DT];
    s->b = t[S_B];
    s->c = t[S_C];
    s->z = t[S_Z];
    s->out = t[T_OUT];
    s->a = c->a;
    s->d = c->d;
    s->dt_bias = c->bias;
    s->states = states;
    fovea_conv_args *v = &to->conv;
    v->x = t[C_X];
    v->out = t[T_OUT];
    v->weight = c->a;
    v->bias = c->bias;
    v->states = states;
}

fovea_status recurrence_call(const fovea_context *ctx, const recurrence_case *c, int64_t sequence, int64_t first,
                             int64_t count, fovea_tensor out, const fovea_states *states, void *workspace,
                             size_t size) {
    recurrence_case f;
    fill(c, sequence, first, count, out, states, &f);
    return c->kind == DELTA  ? fovea_gated_delta_rule(ctx, &f.delta, workspace, size)
           : c->kind == SCAN ? fovea_selective_scan(ctx, &f.scan, workspace, size)
                             : fovea_causal_conv(ctx, &f.conv, workspace, size);
}

size_t recurrence_workspace(const fovea_context *ctx, const recurrence_case *c, int64_t sequence, int64_t first,
                            int64_t count, const fovea_states *states) {
    recurrence_case f;
    fill(c, sequence, first, count, c->tensor[T_OUT], states, &f);
    return c->kind == DELTA  ? fovea_gated_delta_rule_workspace_size(ctx, &f.delta)
           : c->kind == SCAN ? fovea_selective_scan_workspace_size(ctx, &f.scan)
                             : fovea_causal_conv_workspace_size(ctx, &f.conv);
}

/* ----------------------------------------------------------------------------------------------------- float64 -- */

/* Channels of a token and head. */
static const float *at(const recurrence_case *c, int which, int64_t sequence, int64_t token, int64_t head) {
    const int64_t *shape = c->tensor[which].shape;
    return c->floats[which] + ((sequence * c->tokens + token) * shape[1] + head) * shape[3];
}

static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double limit(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static double length_factor(const recurrence_case *c, const float *x) {
    double sum = 0;
    for (int64_t i = 0; i < c->rows; i++)
        sum += (double)x[i] * (double)x[i];
    const double eps = (double)(float)c->delta.eps;
    return c->delta.norm == FOVEA_L2_NONE    ? 1
           : c->delta.norm == FOVEA_L2_RSQRT ? 1 / sqrt(sum + eps)
                                             : 1 / fmax(sqrt(sum), eps);
}

static int64_t head_of(const recurrence_case *c, int which, int64_t head) {
    const int64_t of = c->tensor[which].shape[1];
    return c->delta.tiled_heads ? head % of : head / (c->heads / of);
}

static void delta_token(const recurrence_case *c, int64_t b, int64_t t, int64_t h, int64_t count, double *out,
                        double *state, double *most) {
    const fovea_delta_args *a = &c->delta;
    const float *k = at(c, T_K, b, t, head_of(c, T_K, h)), *v = at(c, T_V, b, t, h);
    const int64_t q_heads = c->tensor[T_Q].shape[1], queries = q_heads > c->heads ? q_heads / c->heads : 1,
                  gates = c->tensor[T_GATE].shape[3];
    const double k_factor = length_factor(c, k);
    double beta = a->beta_scale * 1;
    if (c->floats[T_BETA]) {
        const double x = *at(c, T_BETA, b, t, c->tensor[T_BETA].shape[1] == 1 ? 0 : h);
        beta = a->beta_scale * (a->beta_sigmoid ? 1 / (1 + exp(-x)) : x);
    } else
        beta = 1;
    for (int64_t i = 0; i < c->rows && c->floats[T_GATE]; i++) {
        const int64_t channel = gates == 1 ? 0 : i;
        double g = at(c, T_GATE, b, t, h)[channel];
        if (c->a)
            g = -exp((double)c->a[h]) *
                limit(softplus(g + (c->bias ? (double)c->bias[h * gates + channel] : 0)), a->dt_min, a->dt_max);
        for (int64_t j = 0; j < c->columns; j++)
            state[i * c->columns + j] *= exp(g);
    }
    for (int64_t j = 0; j < c->columns; j++) {
        double m = 0;
        for (int64_t i = 0; i < c->rows && !a->no_delta; i++)
            m += state[i * c->columns + j] * (double)k[i] * k_factor;
        const double d = beta * ((double)v[j] - m);
        for (int64_t i = 0; i < c->rows; i++) {
            state[i * c->columns + j] += d * (double)k[i] * k_factor;
            *most = fmax(*most, fabs(state[i * c->columns + j]));
        }
        for (int64_t n = 0; n < queries; n++) {
            const float *q = at(c, T_Q, b, t, queries > 1 ? h * queries + n : head_of(c, T_Q, h));
            double y = 0;
            for (int64_t i = 0; i < c->rows; i++)
                y += state[i * c->columns + j] * (double)q[i];
            out[((h * queries + n) * count + t) * c->columns + j] =
                y * length_factor(c, q) * (a->scale != 0 ? a->scale : 1 / sqrt((double)c->rows));
        }
    }
}

static void scan_token(const recurrence_case *c, int64_t b, int64_t t, int64_t h, int64_t count, double *out,
                       double *state, double *most) {
    const fovea_scan_args *a = &c->scan;
    const int64_t width = c->tensor[S_DT].shape[3], group = h / (c->heads / c->tensor[S_B].shape[1]);
    const bool per_channel = width != 1 || c->columns == 1;
    const float *x = at(c, S_X, b, t, h), *keys = at(c, S_B, b, t, group), *queries = at(c, S_C, b, t, group);
    for (int64_t j = 0; j < c->columns; j++) {
        const int64_t channel = h * width + (per_channel ? j : 0);
        double dt = (double)at(c, S_DT, b, t, h)[per_channel ? j : 0] + (c->bias ? (double)c->bias[channel] : 0), y = 0;
        dt = limit(a->dt_softplus ? softplus(dt) : dt, a->dt_min, a->dt_max);
        for (int64_t i = 0; i < c->rows; i++) {
            double *s = &state[i * c->columns + j];
            *s = *s * exp(dt * (double)c->a[per_channel ? channel * c->rows + i : h]) +
                 dt * (double)x[j] * (double)keys[i];
            y += *s * (double)queries[i];
            *most = fmax(*most, fabs(*s));
        }
        y += c->d ? (double)c->d[channel] * (double)x[j] : 0;
        out[(h * count + t) * c->columns + j] = c->floats[S_Z] ? y * silu(at(c, S_Z, b, t, h)[j]) : y;
    }
}

static void conv_token(const recurrence_case *c, int64_t b, int64_t t, double *out, double *state) {
    const int64_t taps = c->conv.taps;
    const float *x = at(c, C_X, b, t, 0);
    for (int64_t j = 0; j < c->columns; j++) {
        double y = c->bias ? c->bias[j] : 0;
        for (int64_t w = 0; w < taps; w++)
            y += (double)c->a[j * taps + w] * (w < taps - 1 ? state[w * c->columns + j] : (double)x[j]);
        for (int64_t w = 0; w < taps - 1; w++)
            state[w * c->columns + j] = w < taps - 2 ? state[(w + 1) * c->columns + j] : (double)x[j];
        out[t * c->columns + j] = c->conv.silu ? silu(y) : y;
    }
}

void recurrence_oracle(const recurrence_case *c, int64_t sequence, int64_t count, double *out, double *state,
                       double *scale) {
    const int64_t size = c->rows * c->columns;
    *scale = 1;
    for (int64_t i = 0; i < recurrence_state_size(c); i++)
        state[i] = c->state[sequence * recurrence_state_size(c) + i];
    for (int64_t t = 0; t < count; t++)
        for (int64_t h = 0; h < c->heads; h++)
            if (c->kind == CONV)
                conv_token(c, sequence, t, out, state);
            else
                (c->kind == DELTA ? delta_token : scan_token)(c, sequence, t, h, count, out, state + h * size, scale);
}
