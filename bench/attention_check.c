/* Checks an attention before it is timed: no element of an output may be left unwritten, and sampled rows are computed
 * again, each by itself as an attention of one query and one head on the scalar tier, and must have the same bits; so
 * must their lse and weights. That is the library's promise, so the check is exact and costs little even where the
 * whole would take the scalar tier seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"

enum { SAMPLED_ROWS = 64 };

static const char *const output_names[ATTENTION_OUTPUTS] = {"output", "lse", "weights"};

/* The part of a tensor that belongs to one row of one head; rows < 0: all of them. */
static fovea_tensor slice(const fovea_tensor *t, int64_t b, int64_t h, int64_t row) {
    fovea_tensor part = *t;
    const int64_t size = fv_dtype_size(t->dtype);
    int64_t offset = b * t->stride[0] + h * t->stride[1] + (row < 0 ? 0 : row * t->stride[2]);
    part.data = (char *)t->data + offset * size;
    part.shape[0] = part.shape[1] = 1;
    if (row >= 0)
        part.shape[2] = 1;
    return part;
}

/* Computes row number `row` of the outputs alone on the scalar tier; NULL if it has the same bits. A row past its
 * sequence's length is a row of a sequence without queries there. */
static const char *check_row(attention *self, const fovea_attention_plan *alone, int64_t row, float *expected) {
    const fovea_attention_desc *desc = &self->desc;
    int64_t i = row % desc->q_len, h = row / desc->q_len % desc->q_heads, b = row / desc->q_len / desc->q_heads;
    const attention_sequence sequence = attention_sequence_of(self, b);
    const attention_place place = attention_place_of(self, b);
    if (desc->packed && i >= sequence.q_len)
        return NULL;
    int64_t key_head = h / (desc->q_heads / desc->kv_heads), offset = sequence.offset + i;
    int64_t queries = i < sequence.q_len;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = slice(&self->args.q, place.entry, h, place.q_start + i);
    args.k = slice(&self->args.k, place.entry, key_head, -1);
    args.v = slice(&self->args.v, place.entry, key_head, -1);
    if (self->seen.data != NULL)
        args.mask = slice(&self->seen, 0, 0, i);
    else if (desc->mask != FOVEA_MASK_NONE)
        args.mask = slice(&self->args.mask, 0, 0, i);
    if (desc->has_bias)
        args.bias = slice(&self->args.bias, b, h, i);
    if (desc->relative != FOVEA_RELATIVE_NONE)
        args.relative = slice(&self->args.relative, 0, h, -1);
#define FOVEA_ARGS_HEADS(name, flag, text) args.name = desc->flag ? self->args.name + h : NULL;
#include "fovea/fields.inc"
    args.q_lens = &queries;
    args.kv_lens = &sequence.kv_len;
    args.kv_starts = &place.kv_start;
    args.q_offsets = &offset;
    for (int o = 0; o < ATTENTION_OUTPUTS; o++) {
        const fovea_tensor *whole = attention_output(&self->args, o);
        if (whole->data == NULL)
            continue;
        *attention_output(&args, o) = fovea_tensor_bhtd(expected, whole->dtype, 1, 1, 1, whole->shape[3]);
        expected += whole->shape[3];
    }
    if (fovea_attention_execute(alone, &args, NULL, 0) != FOVEA_OK)
        return fovea_error_detail();
    for (int o = 0; o < ATTENTION_OUTPUTS; o++) {
        const fovea_tensor *want = attention_output(&args, o);
        if (want->data == NULL)
            continue;
        const fovea_tensor got = slice(attention_output(&self->args, o), place.entry, h, place.q_start + i);
        if (memcmp(want->data, got.data, (size_t)(want->shape[3] * fv_dtype_size(want->dtype))) == 0)
            continue;
        static char error[BENCH_ERROR_SIZE];
        snprintf(error, sizeof error,
                 "WRONG: %s of batch %" PRId64 " head %" PRId64 " row %" PRId64 " is not what scalar gives",
                 output_names[o], b, h, i);
        return error;
    }
    return NULL;
}

/* NULL if no element of the output is as it was before. */
static const char *check_written(const fovea_tensor *output, const char *name) {
    const int64_t elements = output->data ? attention_elements(output) : 0;
    const uint32_t *bits = output->data;
    const uint16_t *halves = output->data;
    for (int64_t i = 0; i < elements; i++) {
        if (output->dtype == FOVEA_DTYPE_F32 ? bits[i] == UINT32_MAX : halves[i] == UINT16_MAX) {
            static char error[BENCH_ERROR_SIZE];
            snprintf(error, sizeof error, "WRONG: a part of the %s was not written", name);
            return error;
        }
    }
    return NULL;
}

const char *attention_check(attention *self) {
    const char *error = NULL;
    for (int o = 0; o < ATTENTION_OUTPUTS && error == NULL; o++)
        error = check_written(attention_output(&self->args, o), output_names[o]);
    if (error != NULL)
        return error;
    fovea_attention_desc desc = self->desc;
    desc.batch = desc.q_heads = desc.kv_heads = desc.q_len = 1;
    desc.packed = 0;
    desc.kv_len = self->args.k.shape[2];
    desc.causal = self->desc.causal == FOVEA_CAUSAL_NONE ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_OFFSET;
    if (self->seen.data != NULL)
        desc.mask = FOVEA_MASK_BOOLEAN;
    fovea_context *context = NULL;
    fovea_attention_plan *alone = NULL;
    float *expected = bench_alloc((desc.value_dim + 1 + desc.kv_len) * (int64_t)sizeof(float)); /* of all outputs */
    if (expected == NULL)
        error = "no memory";
    else if ((error = bench_context(FOVEA_ISA_SCALAR, 1, &context)) == NULL &&
             fovea_attention_plan_create(context, &desc, &alone) != FOVEA_OK)
        error = fovea_error_detail();
    int64_t rows = self->desc.batch * self->desc.q_heads * self->desc.q_len;
    int64_t samples = rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
    uint64_t state = 6;
    for (int64_t i = 0; i < samples && error == NULL; i++) {
        int64_t row = i;
        if (rows > samples && i > 0) /* the first, the last, and some between */
            row = i == 1 ? rows - 1 : (int64_t)(bench_random(&state) % (uint64_t)rows);
        error = check_row(self, alone, row, expected);
    }
    fovea_attention_plan_destroy(alone);
    fovea_context_destroy(context);
    free(expected);
    return error;
}
