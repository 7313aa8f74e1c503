/* Inputs and comparison of tests against recorded results of other systems, which scripts in data/ wrote. */
#ifndef FOVEA_TESTS_RECORDED_H
#define FOVEA_TESTS_RECORDED_H

#include "arrays.h"
#include "attention_case.h"
#include "test.h"

#include <math.h>
#include <stdio.h>

/* As in data/mha_torch.py. Freed by the caller. */
static inline float *fill(uint32_t seed, int64_t n) {
    float *x = must_alloc(n, sizeof *x);
    uint32_t state = seed;
    for (int64_t i = 0; i < n; i++) {
        state = (state * 1103515245u + 12345u) & 0x7fffffffu;
        x[i] = (float)((int32_t)((state >> 16) % 129) - 64) / 64.0f;
    }
    return x;
}

/* The n floats NAME or, if part is not NULL, NAME_PART of the file that test_arrays_read() read. */
static inline const float *recorded(const char *name, const char *part, int64_t n) {
    char whole[96];
    snprintf(whole, sizeof whole, "%s%s%s", name, part ? "_" : "", part ? part : "");
    return test_array_named(whole, "float32", n);
}

/* One check: n results within 1e-5 of the recorded ones, as far as they are below 1, else of them. */
static inline void compare(const float *got, const float *want, int64_t n, const char *what) {
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - (double)want[i]) / (1.0 + fabs((double)want[i]));
        worst = error > worst || float_is_nan(got[i]) ? error : worst;
        if (float_is_nan(got[i]))
            break;
    }
    test_check(worst < 1e-5, "%s: off by %.3g", what, worst);
}

/* Tensors, and the sizes that they have. */
static inline void set_tensors(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor q, fovea_tensor k,
                               fovea_tensor v, fovea_tensor out) {
    desc->batch = q.shape[0];
    desc->q_heads = q.shape[1];
    desc->kv_heads = k.shape[1];
    desc->q_len = q.shape[2];
    desc->kv_len = k.shape[2];
    desc->head_dim = q.shape[3];
    desc->value_dim = v.shape[3];
    args->q = q;
    args->k = k;
    args->v = v;
    args->out = out;
}

/* A boolean or additive mask, or none. */
static inline void set_mask(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor mask) {
    desc->mask = !mask.data                       ? FOVEA_MASK_NONE
                 : mask.dtype == FOVEA_DTYPE_BOOL ? FOVEA_MASK_BOOLEAN
                                                  : FOVEA_MASK_ADDITIVE;
    args->mask = mask;
}

/* Plans, executes once; a failed check if the library refuses. */
static inline bool execute(const fovea_context *ctx, const fovea_attention_desc *desc, const fovea_attention_args *args,
                           const char *what) {
    fovea_attention_plan *plan;
    bool ok =
        test_check(fovea_attention_plan_create(ctx, desc, &plan) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    ok = ok &&
         test_check(fovea_attention_execute(plan, args, NULL, 0) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    fovea_attention_plan_destroy(plan);
    return ok;
}

#endif
