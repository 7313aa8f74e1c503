#include "experts_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const fovea_dtype floats[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

static fovea_dtype some_type(rng *r) { return floats[rng_below(r, 2) ? 0 : rng_below(r, 3)]; }

/* n random numbers of a type; *numbers: as floats. */
static void *some_numbers(rng *r, int64_t n, float size, fovea_dtype dtype, float **numbers) {
    float *x = must_alloc(n + 1, sizeof *x);
    void *typed = must_alloc(n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_uniform(r, -size, size);
    convert_elements(n, x, FOVEA_DTYPE_F32, typed, dtype);
    convert_elements(n, typed, dtype, x, FOVEA_DTYPE_F32);
    *numbers = x;
    return typed;
}

/* Rows of numbers [2 n][in] go to gate and up. */
static void take_apart(experts_case *c, int64_t e, const float *both, int64_t n, int64_t in) {
    const bool interleaved = c->desc.gate_up == FOVEA_GATE_UP_INTERLEAVED;
    for (int which = 0; which < 2; which++) {
        float *to = c->numbers[which][e] = must_alloc(n * in, sizeof *to);
        for (int64_t o = 0; o < n; o++)
            memcpy(to + o * in, both + (interleaved ? 2 * o + which : which * n + o) * in, (size_t)in * sizeof *to);
    }
}

/* A map of each expert, of floats in either order or quantized. */
static void add_maps(const fovea_context *ctx, experts_case *c, rng *r, int map, int64_t in, int64_t out, bool both,
                     const quantized_kind *kind) {
    const fovea_dtype dtype = some_type(r);
    const bool rows = rng_below(r, 2);
    for (int64_t e = 0; e < c->desc.experts; e++) {
        const int64_t all = both ? 2 * out : out;
        float *numbers;
        if (kind) {
            quantized_make(&c->quantized[map][e], kind, in, all, r);
            c->matrix[map][e] = c->quantized[map][e].matrix;
            if (c->matrix[map][e].quantization)
                c->matrix[map][e].quantization = &c->quantized[map][e].quantization;
            numbers = must_alloc(in * all, sizeof *numbers);
            test_check(fovea_dequantize(ctx, &c->matrix[map][e], numbers) == FOVEA_OK, "dequantize: %s",
                       fovea_error_detail());
        } else {
            float *given;
            void *data = c->data[map][e] = some_numbers(r, in * all, 1.5f / sqrtf((float)in), dtype, &given);
            c->matrix[map][e] =
                rows ? fovea_matrix_out_in(data, dtype, all, in) : fovea_matrix_in_out(data, dtype, in, all);
            numbers = must_alloc(in * all, sizeof *numbers);
            for (int64_t i = 0; i < in; i++)
                for (int64_t o = 0; o < all; o++)
                    numbers[o * in + i] = given[rows ? o * in + i : i * all + o];
            free(given);
        }
        if (both) {
            take_apart(c, e, numbers, out, in);
            free(numbers);
        } else {
            c->numbers[map][e] = numbers;
        }
    }
}

static void add_bias(experts_case *c, rng *r, int map, int64_t out, bool both) {
    const int64_t n = c->desc.experts * out;
    const fovea_dtype dtype = c->weights.bias_dtype;
    if (!both) {
        c->given_bias[map] = some_numbers(r, n, 1, dtype, &c->bias[map]);
        return;
    }
    float *numbers;
    c->given_bias[E_UP] = some_numbers(r, 2 * n, 1, dtype, &numbers);
    for (int which = 0; which < 2; which++) {
        c->bias[which] = must_alloc(n, sizeof(float));
        for (int64_t i = 0; i < n; i++) {
            const int64_t e = i / out, o = i % out;
            c->bias[which][i] =
                numbers[e * 2 * out + (c->desc.gate_up == FOVEA_GATE_UP_INTERLEAVED ? 2 * o + which : which * out + o)];
        }
    }
    free(numbers);
}

static void add_rows(experts_case *c, rng *r) {
    const int64_t in = c->desc.in_features, experts = c->desc.experts;
    c->batch = rng_between(r, 1, 2);
    c->tokens = rng_below(r, 3) ? rng_between(r, 1, 6) : rng_between(r, 20, 60);
    c->k = rng_between(r, 1, experts);
    const int64_t rows = c->batch * c->tokens;
    void *x = some_numbers(r, rows * in, 1, c->desc.dtype, &c->x_floats);
    c->x = fovea_tensor_bhtd(x, c->desc.dtype, c->batch, 1, c->tokens, in);
    c->chosen = must_alloc(rows * c->k, sizeof *c->chosen);
    c->weight = must_alloc(rows * c->k, sizeof *c->weight);
    for (int64_t i = 0; i < rows * c->k; i++) {
        c->chosen[i] = rng_below(r, experts + 1); /* one may come twice, or be none */
        c->weight[i] = rng_uniform(r, 0, 1);
    }
}

experts_case *experts_case_random(const fovea_context *ctx, rng *r) {
    static const fovea_activation activations[] = {FOVEA_ACTIVATION_SILU_GATED, FOVEA_ACTIVATION_SILU_GATED,
                                                   FOVEA_ACTIVATION_GELU_GATED, FOVEA_ACTIVATION_GELU_TANH_GATED,
                                                   FOVEA_ACTIVATION_RELU,       FOVEA_ACTIVATION_SILU};
    experts_case *c = must_alloc(1, sizeof *c);
    memset(c, 0, sizeof *c);
    const quantized_kind *kind = rng_below(r, 2) ? &quantized_kinds[rng_below(r, quantized_kind_count)] : NULL;
    const int64_t unit = kind ? (kind->unit < 8 ? 8 : kind->unit) : 1;
    fovea_experts_desc *d = &c->desc;
    fovea_experts_desc_init(d);
    fovea_experts_weights_init(&c->weights);
    d->experts = rng_between(r, 1, EXPERTS_MOST);
    d->in_features = unit * rng_between(r, 1, unit > 64 ? 2 : unit > 1 ? 4 : 90);
    d->intermediate = unit * rng_between(r, 1, unit > 64 ? 2 : unit > 1 ? 4 : 90);
    d->out_features = rng_below(r, 2) ? 0 : 8 * rng_between(r, 1, 12);
    d->dtype = some_type(r);
    d->y_dtype = rng_below(r, 2) ? 0 : some_type(r);
    d->activation = activations[rng_below(r, 6)];
    /* Orders of channels are drawn for each matrix, and integers of gate and up need one. */
    d->arithmetic = rng_below(r, 2) || (kind && kind->ordered) ? FOVEA_ARITHMETIC_EXACT : FOVEA_ARITHMETIC_DEFAULT;
    const bool gated = fovea_activation_info(d->activation)->gate != d->activation, apart = kind && kind->group,
               scaled = kind && fovea_dtype_info(kind->dtype)->scaled,
               both = gated && !apart && !scaled && rng_below(r, 3);
    if (both)
        d->gate_up = rng_below(r, 2) ? FOVEA_GATE_UP_CONCATENATED : FOVEA_GATE_UP_INTERLEAVED;
    if (d->activation == FOVEA_ACTIVATION_SILU_GATED && rng_below(r, 2)) {
        d->limit = rng_below(r, 2) ? 7.0 : 0.5;
        d->alpha = rng_below(r, 2) ? 1.702 : 1.0;
        d->up_offset = (double)rng_below(r, 2);
        if (!kind) { /* of more channels than are clamped at a time */
            d->in_features = rng_between(r, 1, 8);
            d->intermediate = rng_between(r, 500, 1100);
        }
    }
    c->weights.bias_dtype = some_type(r);
    const int64_t out = d->out_features ? d->out_features : d->in_features;
    if (gated && !both)
        add_maps(ctx, c, r, E_GATE, d->in_features, d->intermediate, false, kind);
    add_maps(ctx, c, r, E_UP, d->in_features, d->intermediate, both, kind);
    add_maps(ctx, c, r, E_DOWN, d->intermediate, out, false, kind);
    if (gated && !both && rng_below(r, 2))
        add_bias(c, r, E_GATE, d->intermediate, false);
    if (rng_below(r, 2))
        add_bias(c, r, E_UP, d->intermediate, both);
    if (rng_below(r, 2))
        add_bias(c, r, E_DOWN, out, false);
    c->weights.gate = gated && !both ? c->matrix[E_GATE] : NULL;
    c->weights.up = c->matrix[E_UP];
    c->weights.down = c->matrix[E_DOWN];
    c->weights.gate_bias = c->given_bias[E_GATE];
    c->weights.up_bias = c->given_bias[E_UP];
    c->weights.down_bias = c->given_bias[E_DOWN];
    add_rows(c, r);
    const bool integers = kind && d->arithmetic == FOVEA_ARITHMETIC_DEFAULT;
    c->error = integers ? 8e-4 : 4e-5;
    snprintf(c->title, sizeof c->title,
             "%" PRId64 " experts of %" PRId64 " x %" PRId64 " x %" PRId64 ", %s, %s, %s, gate_up %d, limit %g, "
             "batch %" PRId64 ", %" PRId64 " tokens, k %" PRId64,
             d->experts, d->in_features, d->intermediate, out, kind ? kind->name : "floats",
             fovea_arithmetic_name(d->arithmetic), fovea_activation_info(d->activation)->name, (int)d->gate_up,
             d->limit, c->batch, c->tokens, c->k);
    return c;
}

void experts_case_free(experts_case *c) {
    for (int map = 0; map < E_MAPS; map++) {
        for (int64_t e = 0; e < EXPERTS_MOST; e++) {
            free(c->data[map][e]);
            free(c->numbers[map][e]);
            quantized_free(&c->quantized[map][e]);
        }
        free(c->bias[map]);
        free(c->given_bias[map]);
    }
    free(c->x.data);
    free(c->x_floats);
    free(c->chosen);
    free(c->weight);
    free(c);
}

fovea_experts *experts_case_pack(const fovea_context *ctx, const experts_case *c) {
    fovea_experts *experts;
    test_check(fovea_experts_create(ctx, &c->desc, &c->weights, &experts) == FOVEA_OK, "%s: %s", c->title,
               fovea_error_detail());
    return experts;
}

static double activate(fovea_activation activation, double t) {
    switch (activation) {
    case FOVEA_ACTIVATION_RELU: return t > 0 ? t : 0;
    case FOVEA_ACTIVATION_GELU: return t / 2 * (1 + erf(t / sqrt(2)));
    case FOVEA_ACTIVATION_GELU_TANH: return t / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (t + 0.044715 * t * t * t)));
    default: return t / (1 + exp(-t));
    }
}

/* A number between the maps. */
static double gated(const fovea_experts_desc *d, double gate, double up) {
    const bool plain = d->limit == INFINITY && d->alpha == 1 && d->up_offset == 0;
    if (!plain) {
        gate = fmin(gate, d->limit);
        up = fmax(fmin(up, d->limit), -d->limit);
        return gate / (1 + exp(-(double)(float)d->alpha * gate)) * (up + d->up_offset);
    }
    return activate(fovea_activation_info(d->activation)->gate, gate) * up;
}

static double product(const experts_case *c, int map, int64_t e, int64_t o, int64_t in, const double *x, int64_t outs) {
    double sum = c->bias[map] ? c->bias[map][e * outs + o] : 0;
    for (int64_t i = 0; i < in; i++)
        sum += x[i] * (double)c->numbers[map][e][o * in + i];
    return sum;
}

void experts_case_oracle(const experts_case *c, int64_t row, double *y, double *size) {
    const fovea_experts_desc *d = &c->desc;
    const int64_t in = d->in_features, n = d->intermediate, out = d->out_features ? d->out_features : in;
    const bool gate = c->numbers[E_GATE][0] != NULL;
    double *x = must_alloc(in, sizeof *x), *between = must_alloc(n, sizeof *between), most = 0;
    for (int64_t i = 0; i < in; i++)
        x[i] = c->x_floats[row * in + i];
    for (int64_t o = 0; o < out; o++)
        y[o] = 0;
    *size = 1e-3;
    for (int64_t j = 0; j < c->k; j++) {
        const int64_t e = c->chosen[row * c->k + j];
        const double weight = c->weight[row * c->k + j];
        if (e == d->experts)
            continue;
        double length = 0;
        for (int64_t i = 0; i < n; i++) {
            const double up = product(c, E_UP, e, i, in, x, n);
            between[i] = gate ? gated(d, product(c, E_GATE, e, i, in, x, n), up) : activate(d->activation, up);
            most = fmax(most, fabs(up));
            length += fabs(between[i]) + most;
        }
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum = fmax(sum, fabs((double)c->numbers[E_DOWN][e][o * n + i]));
            *size = fmax(*size, weight * sum * length);
            y[o] += weight * product(c, E_DOWN, e, o, n, between, out);
        }
    }
    free(x);
    free(between);
}
