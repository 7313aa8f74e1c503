#include "pieces.h"

#include <stdio.h>

void make_numbers(float *x, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-22f - 2.0f;
    }
}

/* Keys (part 0) or values (1) of tokens as they are in the file: a view. */
static fovea_tensor part_of(float *rows, int64_t tokens, int part) {
    fovea_tensor view = fovea_tensor_bthd(rows, FOVEA_DTYPE_F32, 1, tokens, 2 * HEADS, DIM);
    view.data = rows + part * HEADS * DIM;
    view.shape[1] = HEADS;
    return view;
}

fovea_attention_plan *plan_for(const fovea_context *context, int64_t keys) {
    fovea_attention_desc desc;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = QUERIES;
    desc.kv_len = keys;
    desc.head_dim = desc.value_dim = DIM;
    if (fovea_attention_plan_create(context, &desc, &plan) != FOVEA_OK)
        fprintf(stderr, "plan: %s\n", fovea_error_detail());
    return plan;
}

int attend(const fovea_attention_plan *plan, float *q, float *rows, int64_t buffer, int64_t keys,
           fovea_attention_state *state, int64_t first, float *out) {
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, HEADS, QUERIES, DIM);
    args.k = part_of(rows, buffer, 0);
    args.v = part_of(rows, buffer, 1);
    args.kv_lens = &keys; /* of the buffer's rows */
    args.state = state;
    args.first_key = first;
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, HEADS, QUERIES, DIM);
    if (fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK)
        return 1;
    fprintf(stderr, "execute: %s\n", fovea_error_detail());
    return 0;
}
