/* fovea-bench: exp over an array, fovea_exp_f32, SLEEF's of 1.0 ulp for the same tier and the C library's expf.
 * fovea_exp_f32 has only the best tier that FOVEA_ISA allows; kernel.c times the kernels of others.
 * Before it is timed, the library's result must have the bits of the scalar tier, and any result must be within 1.1 ulp
 * of the double precision one. The arguments are what softmax has: evenly in [-20, 0]. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sleef_exp.h"

typedef enum implementation { FOVEA, SLEEF_U10, LIBM } implementation;

typedef void array_exp(int64_t n, const float *x, float *y);

typedef struct exponential {
    bench base;
    array_exp *function;
    implementation by;
    int64_t n;
    float *x, *y;
} exponential;

static void fovea(int64_t n, const float *x, float *y) { (void)fovea_exp_f32(n, x, y); /* y is checked */ }

static void libm(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = expf(x[i]);
}

static void exp_end(bench *base) {
    exponential *self = (exponential *)base;
    free(self->x);
    free(self->y);
    self->x = self->y = NULL;
}

static void exp_run(bench *base) {
    const exponential *self = (exponential *)base;
    self->function(self->n, self->x, self->y);
}

static const char *exp_begin(bench *base, shim_cost *cost) {
    exponential *self = (exponential *)base;
    const int64_t n = self->n, bytes = n * (int64_t)sizeof(float);
    self->x = bench_alloc(bytes);
    self->y = bench_alloc(bytes);
    if (self->x == NULL || self->y == NULL)
        return "no memory";
    bench_fill(self->x, n, -20, 0, 1);
    memset(self->y, 0, (size_t)bytes);
    self->function(n, self->x, self->y);
    for (int64_t i = 0; i < n; i++) {
        double exact = exp(self->x[i]), ulp = (double)nextafterf((float)exact, 2) - (double)(float)exact;
        if (!(fabs((double)self->y[i] - exact) <= 1.1 * ulp))
            return "WRONG: more than 1.1 ulp from exact";
    }
    if (self->by == FOVEA) {
        float *scalar = bench_alloc(bytes);
        if (scalar == NULL)
            return "no memory";
        fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32)->run.exp_f32(n, self->x, scalar);
        int same = memcmp(scalar, self->y, (size_t)bytes) == 0;
        free(scalar);
        if (!same)
            return "WRONG: not the bits of the scalar tier";
    }
    cost->elements = (double)n;
    cost->bytes = 2.0 * (double)bytes;
    return NULL;
}

static bench *exp_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    static const char *const impl_words[] = {"fovea", "sleef_u10", "libm", NULL};
    static array_exp *const sleef[FV_ISA_COUNT] = {
        [FV_ISA_scalar] = bench_sleef_exp_scalar,
#ifdef FV_HAVE_X86
        [FV_ISA_avx2] = bench_sleef_exp_avx2,
#endif
#ifdef FV_HAVE_AVX512
        [FV_ISA_avx512] = bench_sleef_exp_avx512,
#endif
#ifdef FV_HAVE_ARM64
        [FV_ISA_neon] = bench_sleef_exp_neon,
#endif
    };
    int64_t n = 65536, impl = FOVEA;
    const cli_key keys[] = {{"n", NULL, 1, INT64_C(1) << 30, &n}, {"impl", impl_words, 0, 0, &impl}};
    const bench functions = {.begin = exp_begin, .run = exp_run, .end = exp_end};
    exponential *self = bench_new(sizeof *self, &functions, words, keys, 2, BENCH_TAKES_ISA, error);
    if (self == NULL)
        return NULL;
    const fv_isa tier = (fv_isa)self->base.isa;
    if (impl == FOVEA && tier != bench_target(NULL).isa) {
        snprintf(error, BENCH_ERROR_SIZE, "isa=%s: fovea_exp_f32 takes the best tier; FOVEA_ISA=%s caps it",
                 fv_isa_word(tier), fv_isa_word(tier));
        free(self);
        return NULL;
    }
    self->n = n;
    self->by = (implementation)impl;
    self->function = impl == FOVEA ? fovea : impl == LIBM ? libm : sleef[tier];
    bench_name(&self->base, "exp/f32/n%" PRId64, n);
    if (impl != LIBM)
        bench_name(&self->base, "/isa:%s", fv_isa_word(tier));
    if (impl != FOVEA)
        bench_name(&self->base, "/impl:%s", impl_words[impl]);
    return &self->base;
}

const bench_kind bench_exp = {"exp", exp_make, "n=65536 isa=best|TIER impl=fovea|sleef_u10|libm"};
