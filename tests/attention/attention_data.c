/* Attention problems for tests: the memory of inputs and outputs (attention_case.h). */
#include "attention_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const uint32_t CANARY = 0xc0dec0de; /* a float nobody computes, and not a NaN */

/* ----------------------------------------------------------------------------------------------------- tensors -- */

/* A tensor of that shape and layout with data still to come. *floats: elements from its first to past its last one. */
static fovea_tensor tensor_laid_out(case_layout layout, fovea_dtype dtype, const int64_t shape[4], int64_t *floats) {
    fovea_tensor t = layout == LAYOUT_BHTD || layout == LAYOUT_ODD
                         ? fovea_tensor_bhtd(NULL, dtype, shape[0], shape[1], shape[2], shape[3])
                         : fovea_tensor_bthd(NULL, dtype, shape[0], shape[2], shape[1], shape[3]);
    if (layout == LAYOUT_ODD) {
        t.stride[2] = shape[3] + 1 + shape[3] % 7;
        t.stride[1] = shape[2] * t.stride[2] + 3;
        t.stride[0] = shape[1] * t.stride[1] + 5;
    }
    *floats = 1;
    for (int axis = 0; axis < 4; axis++)
        *floats = shape[axis] == 0 || *floats == 0 ? 0 : *floats + (shape[axis] - 1) * t.stride[axis];
    return t;
}

float *tensor_row(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t) {
    return (float *)tensor->data + b * tensor->stride[0] + h * tensor->stride[1] + t * tensor->stride[2];
}

fovea_tensor tensor_tokens(fovea_tensor tensor, int64_t first, int64_t tokens) {
    size_t element = tensor.dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    if (tensor.data)
        tensor.data = (char *)tensor.data + (size_t)(first * tensor.stride[2]) * element;
    tensor.shape[2] = tokens;
    return tensor;
}

/* ------------------------------------------------------------------------------------------------------ inputs -- */

enum { IS_Q, IS_K, IS_V };

/* Channel c of a row: what makes the scores of the case. Token is the key's index (or the query's). */
static float random_value(case_values values, int which, int64_t token, int64_t tokens, int64_t channel, rng *r) {
    float normal = rng_normal(r);
    if (values == VALUES_SUBNORMAL)
        return normal * (which == IS_V ? 0x1p-130F : 0x1p-100F) * (rng_below(r, 2) ? 1 : 0x1p-20F);
    if (values == VALUES_OVERFLOW && which != IS_V)
        return rng_below(r, 4) ? normal * 0x1p60F : normal * 0x1p64F;
    if (which == IS_V || values == VALUES_RANDOM)
        return normal;
    if (which == IS_Q) /* a first channel that picks the keys' pattern out, and some noise */
        return channel == 0 ? 4 : values == VALUES_EQUAL ? normal : normal * 0.01F;
    float pattern = 0;
    switch (values) {
    case VALUES_EQUAL: return 0.25F;
    case VALUES_ONE_HUGE: pattern = token == tokens / 2 ? 1000 : 0; break;
    case VALUES_RISING: pattern = (float)token * 0.5F; break;
    case VALUES_FALLING: pattern = (float)token * -0.5F; break;
    default: break;
    }
    return channel == 0 ? pattern + normal * 0.01F : normal;
}

static void fill_floats(const fovea_tensor *t, case_values values, int which, const int64_t *lens, rng *r) {
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = 0; i < (lens ? lens[b] : t->shape[2]); i++)
                for (int64_t c = 0; c < t->shape[3]; c++)
                    tensor_row(t, b, h, i)[c] = random_value(values, which, i, t->shape[2], c, r);
}

/* A mask or bias is one value for all its repeats, so what it holds is drawn for its own (collapsed) shape; past the
 * lengths is poison where no row of any repeat reads it. */
static void fill_mask(const fovea_tensor *m, const bool repeats[4], float density, const inputs *in, rng *r) {
    int64_t n[4];
    for (int axis = 0; axis < 4; axis++)
        n[axis] = repeats[axis] && m->shape[axis] > 1 ? 1 : m->shape[axis];
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                for (int64_t j = 0; j < n[3]; j++) {
                    int64_t at = b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j * m->stride[3];
                    bool attend = rng_unit(r) < density;
                    float bias = rng_normal(r);
                    bool past = (!repeats[0] && !repeats[2] && in->q_lens && i >= in->q_lens[b]) ||
                                (!repeats[0] && !repeats[3] && in->kv_lens && j >= in->kv_lens[b]);
                    if (m->dtype == FOVEA_DTYPE_BOOL)
                        ((uint8_t *)m->data)[at] = (uint8_t)(attend || past ? rng_between(r, 1, 255) : 0);
                    else if (!past)
                        ((float *)m->data)[at] = attend ? bias : -INFINITY;
                }
}

static void make_mask(const attention_case *c, fovea_dtype dtype, const bool repeats[4], float density, inputs *in,
                      fovea_tensor *m, void **memory, rng *r) {
    const fovea_attention_desc *d = &c->desc;
    int64_t shape[4] = {d->batch, d->q_heads, d->q_len, d->kv_len}, stored[4], elements;
    for (int axis = 0; axis < 4; axis++)
        stored[axis] = repeats[axis] && shape[axis] > 1 ? 1 : shape[axis];
    *m = tensor_laid_out(c->layout, dtype, stored, &elements);
    m->data = *memory = must_alloc(elements, sizeof(float));
    poison_fill(m->data, elements);
    bool by_stride = rng_below(r, 2); /* otherwise by a shape of 1 */
    for (int axis = 0; axis < 4; axis++)
        if (repeats[axis] && by_stride) {
            m->shape[axis] = shape[axis];
            m->stride[axis] = 0;
        }
    fill_mask(m, repeats, density, in, r);
}

/* Slopes, or tables in which one entry of 16 masks. */
static void make_relative(const attention_case *c, inputs *in, rng *r) {
    const fovea_attention_desc *d = &c->desc;
    const int64_t window = (2 * d->relative_height - 1) * (2 * d->relative_width - 1);
    const int64_t entries = d->relative == FOVEA_RELATIVE_ALIBI      ? 1
                            : d->relative == FOVEA_RELATIVE_TOEPLITZ ? c->relative_entries
                            : d->relative == FOVEA_RELATIVE_T5       ? d->relative_buckets
                                                                     : window;
    const int64_t shape[4] = {c->relative_repeats[0] ? 1 : d->batch, c->relative_repeats[1] ? 1 : d->q_heads, 1,
                              entries};
    int64_t floats;
    fovea_tensor *t = &in->args.relative;
    *t = tensor_laid_out(c->layout, FOVEA_DTYPE_F32, shape, &floats);
    t->data = in->memory[5] = must_alloc(floats, sizeof(float));
    poison_fill(t->data, floats);
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t e = 0; e < entries; e++) {
                const float normal = rng_normal(r);
                const bool masks = d->relative != FOVEA_RELATIVE_ALIBI && rng_below(r, 16) == 0;
                tensor_row(t, b, h, 0)[e] = masks ? -INFINITY : normal;
            }
}

/* given[0 .. batch), or if NULL, lengths of at most most. */
static int64_t *make_lengths(const int64_t *given, int64_t batch, int64_t most, rng *r) {
    int64_t *lens = must_alloc(batch, sizeof *lens);
    for (int64_t b = 0; b < batch; b++)
        lens[b] = given ? given[b] : rng_below(r, 4) == 0 ? most : rng_below(r, 8) == 0 ? 0 : rng_between(r, 0, most);
    return lens;
}

static int64_t *make_offsets(const int64_t *given, const fovea_attention_desc *d, rng *r) {
    int64_t *offsets = must_alloc(d->batch, sizeof *offsets);
    for (int64_t b = 0; b < d->batch; b++)
        offsets[b] = given ? given[b] : rng_between(r, -d->q_len / 2, d->kv_len);
    return offsets;
}

inputs *inputs_make(const attention_case *c, rng *r) { return inputs_make_given(c, r, NULL, NULL, NULL); }

inputs *inputs_make_given(const attention_case *c, rng *r, const int64_t *q_lens, const int64_t *kv_lens,
                          const int64_t *q_offsets) {
    const fovea_attention_desc *d = &c->desc;
    inputs *in = must_alloc(1, sizeof *in);
    memset(in, 0, sizeof *in);
    fovea_attention_args *args = &in->args;
    fovea_attention_args_init(args);
    if (c->q_lens)
        args->q_lens = in->q_lens = make_lengths(q_lens, d->batch, d->q_len, r);
    if (c->kv_lens)
        args->kv_lens = in->kv_lens = make_lengths(kv_lens, d->batch, d->kv_len, r);
    if (c->q_offsets)
        args->q_offsets = in->q_offsets = make_offsets(q_offsets, d, r);

    const int64_t q_shape[4] = {d->batch, d->q_heads, d->q_len, d->head_dim};
    const int64_t k_shape[4] = {d->batch, d->kv_heads, d->kv_len, d->head_dim};
    const int64_t v_shape[4] = {d->batch, d->kv_heads, d->kv_len, d->value_dim};
    const int64_t shift = rng_below(r, 4); /* floats from malloc's alignment */
    int64_t n[3];
    args->q = tensor_laid_out(c->layout, FOVEA_DTYPE_F32, q_shape, &n[0]);
    args->k = tensor_laid_out(c->layout, FOVEA_DTYPE_F32, k_shape, &n[1]);
    args->v = tensor_laid_out(c->layout, FOVEA_DTYPE_F32, v_shape, &n[2]);
    fovea_tensor *all[3] = {&args->q, &args->k, &args->v};
    if (c->layout == LAYOUT_PACKED) {
        int64_t tokens = d->q_len > d->kv_len ? d->q_len : d->kv_len;
        int64_t start[3] = {0, d->q_heads * d->head_dim, (d->q_heads + d->kv_heads) * d->head_dim};
        int64_t token = start[2] + d->kv_heads * d->value_dim, floats = d->batch * tokens * token + shift;
        in->memory[0] = must_alloc(floats, sizeof(float));
        poison_fill(in->memory[0], floats);
        for (int i = 0; i < 3; i++) {
            all[i]->data = (float *)in->memory[0] + shift + start[i];
            all[i]->stride[0] = tokens * token;
            all[i]->stride[2] = token;
        }
    } else {
        for (int i = 0; i < 3; i++) {
            in->memory[i] = must_alloc(n[i] + shift, sizeof(float));
            poison_fill(in->memory[i], n[i] + shift);
            all[i]->data = (float *)in->memory[i] + shift;
        }
    }
    fill_floats(&args->q, c->values, IS_Q, in->q_lens, r);
    fill_floats(&args->k, c->values, IS_K, in->kv_lens, r);
    fill_floats(&args->v, c->values, IS_V, in->kv_lens, r);
    if (d->mask != FOVEA_MASK_NONE)
        make_mask(c, d->mask == FOVEA_MASK_BOOLEAN ? FOVEA_DTYPE_BOOL : FOVEA_DTYPE_F32, c->mask_repeats,
                  c->mask_density, in, &args->mask, &in->memory[3], r);
    if (d->has_bias)
        make_mask(c, FOVEA_DTYPE_F32, c->bias_repeats, (1 + c->mask_density) / 2, in, &args->bias, &in->memory[4], r);
    if (d->relative != FOVEA_RELATIVE_NONE)
        make_relative(c, in, r);
    if (d->has_sinks) {
        args->sinks = in->sinks = must_alloc(d->q_heads, sizeof *in->sinks);
        for (int64_t h = 0; h < d->q_heads; h++)
            in->sinks[h] = rng_below(r, 8) ? 3 * rng_normal(r) : rng_below(r, 2) ? -INFINITY : 100;
    }
    return in;
}

void inputs_free(inputs *in) {
    for (int i = 0; i < 6; i++)
        free(in->memory[i]);
    free(in->q_lens);
    free(in->kv_lens);
    free(in->q_offsets);
    free(in->sinks);
    free(in);
}

/* ----------------------------------------------------------------------------------------------------- outputs -- */

void outputs_clear(outputs *out) {
    for (int64_t i = 0; i < out->floats; i++)
        out->memory[i] = bits_float(CANARY);
}

outputs *outputs_make(const attention_case *c, case_layout layout) {
    const fovea_attention_desc *d = &c->desc;
    const int64_t out_shape[4] = {d->batch, d->q_heads, d->q_len, d->value_dim};
    const int64_t lse_shape[4] = {d->batch, d->q_heads, d->q_len, 1};
    const int64_t weights_shape[4] = {d->batch, d->q_heads, d->q_len, d->kv_len};
    int64_t n[3];
    outputs *o = must_alloc(1, sizeof *o);
    o->out = tensor_laid_out(layout, FOVEA_DTYPE_F32, out_shape, &n[0]);
    o->lse = tensor_laid_out(layout, FOVEA_DTYPE_F32, lse_shape, &n[1]);
    o->weights = tensor_laid_out(layout, FOVEA_DTYPE_F32, weights_shape, &n[2]);
    n[1] = c->lse ? n[1] : 0;
    n[2] = c->weights ? n[2] : 0;
    o->floats = n[0] + n[1] + n[2] + 4; /* a canary at both ends and between */
    o->memory = must_alloc(o->floats, sizeof(float));
    o->out.data = o->memory + 1;
    o->lse.data = c->lse ? o->memory + n[0] + 2 : NULL;
    o->weights.data = c->weights ? o->memory + n[0] + n[1] + 3 : NULL;
    outputs_clear(o);
    return o;
}

void outputs_free(outputs *out) {
    free(out->memory);
    free(out);
}

bool outputs_same(const outputs *got, const outputs *want, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return test_same(got->memory, want->memory, want->floats, "%s", text);
}
