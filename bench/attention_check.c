/* Checks an attention before it is timed: no element of the output may be left unwritten, and sampled rows are computed
 * again, each by itself as an attention of one query and one head on the scalar tier, and must have the same bits. That
 * is the library's promise, so the check is exact and costs little even where the whole would take the scalar tier
 * seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"

enum { SAMPLED_ROWS = 64 };

/* The part of a tensor that belongs to one row of one head; rows < 0: all of them. */
static fovea_tensor slice(const fovea_tensor *t, int64_t b, int64_t h, int64_t row) {
    fovea_tensor part = *t;
    size_t size = t->dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    int64_t offset = b * t->stride[0] + h * t->stride[1] + (row < 0 ? 0 : row * t->stride[2]);
    part.data = (char *)t->data + (size_t)offset * size;
    part.shape[0] = part.shape[1] = 1;
    if (row >= 0)
        part.shape[2] = 1;
    return part;
}

/* Computes row number `row` of the output alone on the scalar tier; NULL if it has the same bits. */
static const char *check_row(const attention *self, const fovea_attention_plan *alone, int64_t row, float *expected) {
    const fovea_attention_desc *desc = &self->desc;
    int64_t i = row % desc->q_len, h = row / desc->q_len % desc->q_heads, b = row / desc->q_len / desc->q_heads;
    int64_t key_head = h / (desc->q_heads / desc->kv_heads), offset = attention_position(desc, i);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = slice(&self->args.q, b, h, i);
    args.k = slice(&self->args.k, b, key_head, -1);
    args.v = slice(&self->args.v, b, key_head, -1);
    if (desc->mask != FOVEA_MASK_NONE)
        args.mask = slice(&self->args.mask, b, h, i);
    args.out = fovea_tensor_bhtd(expected, FOVEA_DTYPE_F32, 1, 1, 1, desc->value_dim);
    args.q_offsets = &offset;
    if (fovea_attention_execute(alone, &args, NULL, 0) != FOVEA_OK)
        return fovea_error_detail();
    const fovea_tensor out = slice(&self->args.out, b, h, i);
    if (memcmp(expected, out.data, (size_t)desc->value_dim * sizeof *expected) == 0)
        return NULL;
    static char error[BENCH_ERROR_SIZE];
    snprintf(error, sizeof error, "WRONG: batch %" PRId64 " head %" PRId64 " row %" PRId64 " is not what scalar gives",
             b, h, i);
    return error;
}

const char *attention_check(const attention *self) {
    const int64_t elements = attention_elements(&self->args.out);
    const uint32_t *bits = self->args.out.data;
    for (int64_t i = 0; i < elements; i++) {
        if (bits[i] == UINT32_MAX)
            return "WRONG: a part of the output was not written";
    }
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = FOVEA_ISA_SCALAR;
    options.threads = 1;
    fovea_attention_desc desc = self->desc;
    desc.batch = desc.q_heads = desc.kv_heads = desc.q_len = 1;
    desc.causal = self->desc.causal == FOVEA_CAUSAL_NONE ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_OFFSET;
    fovea_context *context = NULL;
    fovea_attention_plan *alone = NULL;
    const char *error = NULL;
    float *expected = bench_alloc(desc.value_dim * (int64_t)sizeof(float));
    if (expected == NULL)
        error = "no memory";
    else if (fovea_context_create(&options, &context) != FOVEA_OK ||
             fovea_attention_plan_create(context, &desc, &alone) != FOVEA_OK)
        error = fovea_error_detail();
    int64_t rows = self->desc.batch * self->desc.q_heads * self->desc.q_len;
    int64_t samples = rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
    uint64_t state = 6;
    for (int64_t i = 0; i < samples && error == NULL; i++) {
        int64_t row = rows == samples ? i : (int64_t)(bench_random(&state) % (uint64_t)rows);
        error = check_row(self, alone, i == 0 ? 0 : i == 1 ? rows - 1 : row, expected);
    }
    fovea_attention_plan_destroy(alone);
    fovea_context_destroy(context);
    free(expected);
    return error;
}
