/* A tier of one single kernel, and a kernel that needs a feature (*.inc in this folder; the library is compiled with
 * FV_MADE_UP): look-ups fall through per operation, rows without their feature are passed over, and bits stay. */
#define _POSIX_C_SOURCE 200112L
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "linear_case.h"
#include "mha_layer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int finishes, gemms;

void fv_finish_f32_1x1_lone(int64_t rows, int64_t n, const float *O, int64_t ldO, const float *M, const float *L,
                            float *out, int64_t ldout, float *lse, int64_t ldlse) {
    finishes++;
    fv_kernel_scalar(FV_OP_finish, FV_TYPE_f32)->run.finish_f32(rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}

void fv_multiply_f32_f32_4x2_scalar(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                    const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    gemms++;
    fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, (fv_target){FV_ISA_scalar, 0})
        ->run.multiply(a, b, c, ldc, epilogue, prefetch);
}

/* A context as on this CPU with that tier and those features; capped: FOVEA_ISA_BEST for not. */
static fovea_context *context_on(fv_isa isa, unsigned features, fovea_isa capped) {
    fv_cpu cpu;
    fovea_context *ctx;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = capped;
    options.threads = 2;
    options.tuning_file = "";
    fv_cpu_detect(&cpu);
    cpu.target = (fv_target){isa, features};
    if (fv_context_create_on(&cpu, &options, &ctx) != FOVEA_OK) {
        printf("FAILED: no context: %s\n", fovea_error_detail());
        exit(TEST_FAILED);
    }
    return ctx;
}

/* Attention, linear maps and layers have the bits of another context. */
static void check_same(const fovea_context *ctx, const fovea_context *other, const char *what) {
    for (int i = 0, cases = (int)test_scaled(40); i < cases; i++) {
        char text[512];
        rng r = rng_stream(test_seed() + (uint64_t)i, "made up");
        const attention_case c = case_random(&r, 100000);
        inputs *in = inputs_make(&c, &r);
        outputs *got = outputs_make(&c, LAYOUT_BHTD), *want = outputs_make(&c, LAYOUT_BHTD);
        if (case_run(ctx, NULL, &c, in, got) && case_run(other, NULL, &c, in, want))
            outputs_same(got, want, "%s: %s", what, case_text(&c, text, sizeof text));
        outputs_free(got);
        outputs_free(want);
        inputs_free(in);

        const linear_case l = linear_case_random(&r);
        linear_problem *p = linear_problem_make(&l, &r);
        float *bits[LINEAR_PARTS] = {NULL};
        if (linear_problem_run(p, other)) {
            for (int part = 0; part < l.parts; part++) {
                const size_t size = (size_t)tensor_floats(&p->y[part]) * sizeof(float);
                bits[part] = malloc(size);
                memcpy(bits[part], p->y[part].data, size);
            }
            if (linear_problem_run(p, ctx))
                linear_problem_same(p, (const float *const *)bits, "%s: %s", what,
                                    linear_case_text(&l, text, sizeof text));
        }
        for (int part = 0; part < l.parts; part++)
            free(bits[part]);
        linear_problem_free(p);
    }
    for (int i = 0; i < LAYER_SIZES; i++) {
        rng r = rng_stream(test_seed() + (uint64_t)i, "made-up layer");
        layer *l = layer_make(&layer_sizes_tested[i], &r);
        float *got = layer_run(ctx, l, &l->desc, &l->w, what), *want = layer_run(other, l, &l->desc, &l->w, what);
        if (got && want)
            test_same(got, want, layer_floats(l), "%s: layer %d", what, i);
        free(got);
        free(want);
        layer_free(l);
    }
}

static bool reason_has(const fovea_context *ctx, const char *words) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    return fovea_context_info(ctx, &info) == FOVEA_OK && strstr(info.reason, words);
}

static void test_lone(void) {
    const fv_isa below = fv_isa_below(FV_ISA_lone);
    fovea_context *lone = context_on(FV_ISA_lone, 0, FOVEA_ISA_BEST), *other = context_on(below, 0, FOVEA_ISA_BEST);
    int rows = 0;
    for (int i = 0; i < fv_kernel_count; i++)
        rows += fv_kernels[i].isa == FV_ISA_lone;
    test_check(rows == 1, "%d kernels of the made-up tier", rows);
    const fv_kernel *gemm = fv_multiply_for(lone->target, 64, 64);
    test_check(gemm && gemm == fv_multiply_for(other->target, 64, 64), "its gemm is %s", gemm ? gemm->name : "none");
    test_check(reason_has(lone, "lone"), "the tier is not named");
    check_same(lone, other, "one kernel");
    test_check(finishes > 0 && gemms == 0, "its kernel was called %d times, that of a feature %d times", (int)finishes,
               (int)gemms);
    fovea_context_destroy(lone);
    fovea_context_destroy(other);
}

static void test_feature(void) {
    fovea_context *with = context_on(FV_ISA_scalar, FV_HAS_fancy, FOVEA_ISA_BEST);
    fovea_context *without = context_on(FV_ISA_scalar, 0, FOVEA_ISA_BEST);
    const fv_kernel *row = fv_kernel_named("multiply_f32_f32_4x2_scalar");
    test_check(fv_multiply_for(with->target, 64, 64) == row, "a row whose feature is there is passed over");
    test_check(fv_multiply_for(without->target, 64, 64) != row, "a row whose feature is missing is taken");
    test_check(reason_has(with, "scalar with fancy") && !reason_has(without, "fancy"), "the feature is not named");
    check_same(with, without, "a feature");
    test_check(gemms > 0, "the row whose feature is there was not called");
    fovea_context_destroy(with);
    fovea_context_destroy(without);
}

/* A cap takes the features of higher tiers, and no others. */
static void test_cap(void) {
    fovea_context *ctx = context_on(FV_ISA_lone, FV_HAS_fancy | ~0u >> (32 - FV_FEATURE_COUNT), FOVEA_ISA_SCALAR);
    test_check(ctx->target.isa == FV_ISA_scalar && ctx->target.features == FV_HAS_fancy, "capped: features 0x%x",
               ctx->target.features);
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "made-up", NULL);
    unsetenv("FOVEA_ISA"); /* a cap for the host's tiers: these are made up */
    test_lone();
    test_feature();
    test_cap();
    return test_end();
}
