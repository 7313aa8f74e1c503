/* Packing of experts (experts.h): two linear maps for each. */
#include "experts/experts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The caller's description and weights, with defaults. */
typedef struct source {
    const fovea_context *ctx;
    fovea_experts_desc desc;
    fovea_experts_weights weights;
    bool gated;
} source;

static fovea_status check_size(const char *name, int64_t size, int64_t most) {
    if (size < 1 || size > most)
        return fv_fail(size < 1 ? FOVEA_ERROR_SHAPE : FOVEA_ERROR_OVERFLOW, "%s is %lld; it must be from 1 to %lld",
                       name, (long long)size, (long long)most);
    return FOVEA_OK;
}

static fovea_status check_numbers(const source *s) {
    const fovea_experts_desc *d = &s->desc;
    const bool plain = d->limit == INFINITY && d->alpha == 1.0 && d->up_offset == 0.0;
    if (!((float)d->limit > 0.0f) || !isfinite((float)d->alpha) || !isfinite((float)d->up_offset))
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "limit is %g, alpha %g, up_offset %g; limit must be positive, others finite", d->limit, d->alpha,
                       d->up_offset);
    if (!plain && d->activation != FOVEA_ACTIVATION_SILU_GATED)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "limit, alpha and up_offset are for FOVEA_ACTIVATION_SILU_GATED, not %s",
                       fv_enum_name(FV_ENUM_activation, (int)d->activation));
    if ((unsigned)d->gate_up > FOVEA_GATE_UP_INTERLEAVED)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "gate_up is %d, not a fovea_gate_up", (int)d->gate_up);
    if (!s->gated && d->gate_up != FOVEA_GATE_UP_SEPARATE)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "gate_up is set, but %s has no gate",
                       fv_enum_name(FV_ENUM_activation, (int)d->activation));
    if (d->reserved || s->weights.reserved)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "reserved fields are set");
    return FOVEA_OK;
}

static fovea_status check_weights(const source *s) {
    const fovea_experts_weights *w = &s->weights;
    const bool gate = s->gated && s->desc.gate_up == FOVEA_GATE_UP_SEPARATE;
    if (!w->up || !w->down || (gate && !w->gate))
        return fv_fail(FOVEA_ERROR_NULL, "weights: %s is NULL", !w->up ? "up" : w->down ? "gate" : "down");
    if (!gate && (w->gate || w->gate_bias))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but %s", w->gate ? "gate" : "gate_bias",
                       s->gated ? "up has the gate, too" : "the activation does not gate");
    if ((w->gate_bias || w->up_bias || w->down_bias) && fv_type_of(w->bias_dtype) == FV_TYPE_COUNT)
        return fv_floats_refuse("bias_dtype", w->bias_dtype);
    return FOVEA_OK;
}

static fovea_status read_source(const fovea_experts_desc *desc, const fovea_experts_weights *weights, source *s) {
    fovea_experts_desc *d = &s->desc;
    fovea_experts_desc_init(d);
    fovea_experts_weights_init(&s->weights);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_experts_desc), desc, d);
    if (status == FOVEA_OK)
        status = fv_struct_read(FV_STRUCT(fovea_experts_weights), weights, &s->weights);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_activation, "activation", (int)d->activation);
    if (status != FOVEA_OK)
        return status;
    s->gated = fovea_activation_info(d->activation)->gate != d->activation;
    if (d->out_features == 0)
        d->out_features = d->in_features;
    if (d->y_dtype == 0)
        d->y_dtype = d->dtype;
    if (d->arithmetic == FOVEA_ARITHMETIC_FASTEST) /* of those that experts have */
        d->arithmetic = FOVEA_ARITHMETIC_DEFAULT;
    status = check_size("experts", d->experts, FV_MOST_EXPERTS);
    if (status == FOVEA_OK)
        status = check_size("in_features", d->in_features, FV_SIZE_LIMIT);
    if (status == FOVEA_OK)
        status = check_size("intermediate", d->intermediate, FV_SIZE_LIMIT);
    if (status == FOVEA_OK)
        status = check_size("out_features", d->out_features, FV_SIZE_LIMIT);
    if (status == FOVEA_OK && fv_type_of(d->dtype) == FV_TYPE_COUNT)
        status = fv_floats_refuse("dtype", d->dtype);
    if (status == FOVEA_OK && fv_type_of(d->y_dtype) == FV_TYPE_COUNT)
        status = fv_floats_refuse("y_dtype", d->y_dtype);
    if (status == FOVEA_OK)
        status = check_numbers(s);
    return status == FOVEA_OK ? check_weights(s) : status;
}

static const void *bias_at(const source *s, const void *bias, int64_t at) {
    return bias ? (const char *)bias + fv_dtype_size(s->weights.bias_dtype) * at : NULL;
}

static fovea_status check_out(const char *name, const fovea_matrix *w, int64_t out) {
    if (w->out != out)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld output channels, not %lld", name, (long long)w->out,
                       (long long)out);
    return FOVEA_OK;
}

/* Gate and up of an expert where up has both. bias: room for both of theirs, interleaved ones being apart there. */
static fovea_status split(const source *s, int64_t e, fovea_linear_part part[2], char *bias) {
    const fovea_matrix both = s->weights.up[e];
    const int64_t n = s->desc.intermediate, size = fv_dtype_size(s->weights.bias_dtype);
    const bool interleaved = s->desc.gate_up == FOVEA_GATE_UP_INTERLEAVED;
    fovea_status status = check_out("up, with the gate,", &both, 2 * n);
    if (status == FOVEA_OK && both.quantization)
        status = fv_fail(FOVEA_ERROR_UNSUPPORTED,
                         "up has the gate and separate scales: give gate and up as matrices of their own");
    int64_t reach = 0;
    if (status == FOVEA_OK && (both.out_stride < 0 || both.out_stride > FV_SIZE_LIMIT ||
                               !fv_multiply(both.out_stride, 2 * n, &reach) || reach > FV_SIZE_LIMIT))
        status = fv_fail(FOVEA_ERROR_OVERFLOW, "up: stride %lld is out of range", (long long)both.out_stride);
    if (status != FOVEA_OK || !both.data)
        return status == FOVEA_OK ? fv_fail(FOVEA_ERROR_NULL, "up is NULL") : status;
    for (int i = 0; i < 2; i++) {
        fovea_matrix *w = &part[i].weight;
        *w = both;
        w->out = n;
        w->out_stride = both.out_stride * (interleaved ? 2 : 1);
        w->data = (const char *)both.data + fv_dtype_bytes(both.dtype, i * both.out_stride * (interleaved ? 1 : n));
        const char *from = bias_at(s, s->weights.up_bias, e * 2 * n);
        part[i].bias = from ? bias + i * n * size : NULL;
        for (int64_t c = 0; from && c < n; c++)
            memcpy(bias + (i * n + c) * size, from + (interleaved ? 2 * c + i : i * n + c) * size, (size_t)size);
    }
    return FOVEA_OK;
}

static fovea_linear_desc map_desc(const source *s, int64_t in, fovea_dtype dtype) {
    const fovea_experts_desc *d = &s->desc;
    fovea_linear_desc map;
    fovea_linear_desc_init(&map);
    map.in_features = in;
    map.dtype = dtype;
    map.y_dtype = FOVEA_DTYPE_F32;
    map.arithmetic = d->arithmetic;
    map.placement = d->placement;
    map.placement_node = d->placement_node;
    return map;
}

static fovea_status pack_first(const source *s, fovea_experts *x, int64_t e, char *bias) {
    const fovea_experts_weights *w = &s->weights;
    const int64_t n = s->desc.intermediate;
    fovea_linear_part part[2] = {{.bias_dtype = w->bias_dtype}, {.bias_dtype = w->bias_dtype}};
    fovea_status status = FOVEA_OK;
    if (s->desc.gate_up != FOVEA_GATE_UP_SEPARATE) {
        status = split(s, e, part, bias);
    } else {
        const int up = s->gated;
        part[up].weight = w->up[e];
        part[up].bias = bias_at(s, w->up_bias, e * n);
        status = check_out("up", &w->up[e], n);
        if (status == FOVEA_OK && s->gated) {
            part[0].weight = w->gate[e];
            part[0].bias = bias_at(s, w->gate_bias, e * n);
            status = check_out("gate", &w->gate[e], n);
        }
    }
    fovea_linear_desc map = map_desc(s, s->desc.in_features, s->desc.dtype);
    map.part_count = s->gated ? 2 : 1;
    map.parts = part;
    map.activation = x->clamped ? FOVEA_ACTIVATION_NONE : s->desc.activation;
    return status == FOVEA_OK ? fovea_linear_create(s->ctx, &map, &x->first[e]) : status;
}

static fovea_status pack_second(const source *s, fovea_experts *x, int64_t e) {
    fovea_linear_desc map = map_desc(s, s->desc.intermediate, FOVEA_DTYPE_F32);
    map.part.weight = s->weights.down[e];
    map.part.bias = bias_at(s, s->weights.down_bias, e * s->desc.out_features);
    map.part.bias_dtype = s->weights.bias_dtype;
    const fovea_status status = check_out("down", &s->weights.down[e], s->desc.out_features);
    return status == FOVEA_OK ? fovea_linear_create(s->ctx, &map, &x->second[e]) : status;
}

static fovea_status pack_expert(const source *s, fovea_experts *x, int64_t e, char *bias) {
    fovea_status status = pack_first(s, x, e, bias);
    const char *which = s->gated ? "gate and up" : "up";
    if (status == FOVEA_OK) {
        status = pack_second(s, x, e);
        which = "down";
    }
    if (status == FOVEA_OK) {
        x->thread_bytes = fv_max(x->thread_bytes, fv_max(x->first[e]->gathered_bytes, x->second[e]->thread_bytes));
        return FOVEA_OK;
    }
    char detail[400];
    snprintf(detail, sizeof detail, "%s", fovea_error_detail());
    return fv_fail(status, "%s of expert %lld: %s", which, (long long)e, detail);
}

void fovea_experts_destroy(fovea_experts *x) {
    if (!x)
        return;
    for (int64_t e = 0; e < x->count; e++) {
        fovea_linear_destroy(x->first ? x->first[e] : NULL);
        fovea_linear_destroy(x->second ? x->second[e] : NULL);
    }
    free(x->first);
    free(x->second);
    free(x);
}

size_t fovea_experts_weight_bytes(const fovea_experts *x) {
    size_t bytes = 0;
    for (int64_t e = 0; x && e < x->count; e++)
        bytes += fovea_linear_weight_bytes(x->first[e]) + fovea_linear_weight_bytes(x->second[e]);
    return bytes;
}

fovea_status fovea_experts_create(const fovea_context *ctx, const fovea_experts_desc *desc,
                                  const fovea_experts_weights *weights, fovea_experts **experts) {
    FV_HOLD_EXCEPTIONS();
    if (!experts)
        return fv_fail(FOVEA_ERROR_NULL, "experts is NULL");
    *experts = NULL;
    if (!ctx || !desc || !weights)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : desc ? "weights" : "desc");
    source s = {.ctx = ctx};
    fovea_status status = read_source(desc, weights, &s);
    if (status != FOVEA_OK)
        return status;
    const fovea_experts_desc *d = &s.desc;
    fovea_experts *x = calloc(1, sizeof *x);
    const bool biases = d->gate_up != FOVEA_GATE_UP_SEPARATE && s.weights.up_bias;
    char *bias = biases ? malloc((size_t)(2 * d->intermediate * fv_dtype_size(s.weights.bias_dtype))) : NULL;
    if (x) {
        *x = (fovea_experts){.count = d->experts,
                             .in = d->in_features,
                             .intermediate = d->intermediate,
                             .out = d->out_features,
                             .x_dtype = d->dtype,
                             .y_dtype = d->y_dtype,
                             .clamped = d->limit != INFINITY || d->alpha != 1.0 || d->up_offset != 0.0,
                             .limit = (float)d->limit,
                             .alpha = (float)d->alpha,
                             .up_offset = (float)d->up_offset,
                             .first = calloc((size_t)d->experts, sizeof *x->first),
                             .second = calloc((size_t)d->experts, sizeof *x->second)};
    }
    if (!x || !x->first || !x->second || (biases && !bias))
        status = fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for %lld experts", (long long)d->experts);
    for (int64_t e = 0; status == FOVEA_OK && e < d->experts; e++)
        status = pack_expert(&s, x, e, bias);
    free(bias);
    if (status == FOVEA_OK)
        *experts = x;
    else
        fovea_experts_destroy(x);
    return status;
}
