/* What attention.c, which times attentions, and attention_check.c, which checks them, share. */
#ifndef BENCH_ATTENTION_BENCH_H
#define BENCH_ATTENTION_BENCH_H

#include <stdbool.h>

#include "bench.h"

/* The byte that fills an output before it is computed. Four of them are no value that the library writes: its NaN is
 * another. */
enum { ATTENTION_UNWRITTEN = 0xff };

typedef enum memory_layout { LAYOUT_BHTD, LAYOUT_BTHD } memory_layout;

/* fovea_attention_execute, or fovea_sdpa_f32. */
typedef enum attention_call { CALL_PLAN, CALL_SDPA } attention_call;

typedef struct attention {
    bench base;
    fovea_attention_desc desc;
    memory_layout layout;
    attention_call call;
    fovea_isa isa;
    int threads;
    double pairs; /* attended to, of rows and keys */
    bool checked;
    /* From begin to end. */
    fovea_context *context;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
} attention;

/* From the first to the last element of a tensor. */
static inline int64_t attention_elements(const fovea_tensor *t) {
    int64_t last = 1;
    for (int i = 0; i < 4; i++)
        last += (t->shape[i] - 1) * t->stride[i];
    return last;
}

/* The position of a sequence's query i among its keys. */
static inline int64_t attention_position(const fovea_attention_desc *desc, int64_t i) {
    return desc->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? i + desc->kv_len - desc->q_len : i;
}

/* Checks the result that was just computed into self->args.out; NULL, or what is wrong with it. */
const char *attention_check(const attention *self);

#endif
