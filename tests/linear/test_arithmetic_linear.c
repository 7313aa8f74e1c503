/* Linear maps in bf16_tile: the formulas of kernels.h written out, by bits, on all contexts, and over AMX tiles: the
 * CPU's, or emulated, which is counted. In bf16 they have the bits of exact. */
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "fp_control.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 70, IN = 1500, OUT = 150, CASES = 60 };

static case_contexts contexts;
static fovea_context *over_tiles; /* one thread, whose maps in bf16_tile go over tiles, emulated if need be */
static int64_t paired;

typedef struct problem {
    int64_t rows, in, out;
    bool scaled, residual, odd; /* odd: sums are subnormal, for which no tile may be used */
    float x[ROWS * IN], w[IN * OUT], bias[OUT], r[ROWS * OUT];
    uint16_t x_half[ROWS * IN], w_half[IN * OUT];
} problem;

static void round_numbers(int64_t n, float *wide, uint16_t *half) {
    convert_elements(n, wide, FOVEA_DTYPE_F32, half, FOVEA_DTYPE_BF16);
    convert_elements(n, half, FOVEA_DTYPE_BF16, wide, FOVEA_DTYPE_F32);
}

static void draw(problem *p, rng *r) {
    p->rows = rng_below(r, 3) ? rng_between(r, 1, ROWS) : rng_between(r, 1, 9);
    p->in = rng_below(r, 5) ? rng_between(r, 1, 200) : rng_between(r, 600, IN); /* of several blocks of weights */
    p->out = rng_between(r, 1, OUT);
    p->scaled = rng_below(r, 5) == 0;
    p->residual = rng_below(r, 2);
    p->odd = rng_below(r, 3) == 0;
    for (int64_t i = 0; i < p->rows * p->in; i++)
        p->x[i] = rng_normal(r);
    for (int64_t i = 0; i < p->in * p->out; i++)
        p->w[i] = rng_normal(r);
    for (int64_t i = 0; i < p->out; i++)
        p->bias[i] = rng_normal(r);
    for (int64_t i = 0; i < p->rows * p->out; i++)
        p->r[i] = rng_normal(r);
    for (int64_t i = 0; i < p->rows * p->in && p->odd; i++)
        p->x[i] *= 0x1p-66f;
    for (int64_t i = 0; i < p->in * p->out && p->odd; i++)
        p->w[i] *= 0x1p-62f;
    for (int64_t i = 0; i < p->out && p->odd; i++)
        p->bias[i] = 0.0f;
    p->residual = p->residual && !p->odd;
    round_numbers(p->rows * p->in, p->x, p->x_half);
    round_numbers(p->in * p->out, p->w, p->w_half);
}

static bool run(const fovea_context *ctx, const problem *p, fovea_arithmetic arithmetic, float *y) {
    fovea_linear_desc d;
    fovea_linear_args args;
    fovea_linear_stats stats;
    fovea_linear *map;
    fovea_linear_desc_init(&d);
    fovea_linear_args_init(&args);
    fovea_linear_stats_init(&stats);
    d.dtype = FOVEA_DTYPE_BF16;
    d.y_dtype = d.residual_dtype = FOVEA_DTYPE_F32;
    d.in_features = p->in;
    d.activation = FOVEA_ACTIVATION_RELU;
    d.arithmetic = arithmetic;
    d.part = (fovea_linear_part){.weight = fovea_matrix_in_out(p->w_half, FOVEA_DTYPE_BF16, p->in, p->out),
                                 .bias = p->bias,
                                 .bias_dtype = FOVEA_DTYPE_F32,
                                 .has_scale = p->scaled,
                                 .scale = p->scaled ? 0.7 : 0.0};
    if (!test_check(fovea_linear_create(ctx, &d, &map) == FOVEA_OK, "pack: %s", fovea_error_detail()))
        return false;
    const fovea_tensor out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, p->rows, p->out),
                       residual = fovea_tensor_bhtd((void *)(uintptr_t)p->r, FOVEA_DTYPE_F32, 1, 1, p->rows, p->out);
    args.x = fovea_tensor_bhtd((void *)(uintptr_t)p->x_half, FOVEA_DTYPE_BF16, 1, 1, p->rows, p->in);
    args.y = &out;
    args.residual = p->residual ? &residual : NULL;
    args.stats = &stats;
    const fovea_status status = fovea_linear_apply(ctx, map, &args, NULL, 0);
    fovea_linear_destroy(map);
    if (ctx == over_tiles && arithmetic == FOVEA_ARITHMETIC_BF16_TILE)
        paired += stats.fast_products;
    return test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
}

static float expected(const problem *p, int64_t i, int64_t j) {
    const float scale = p->scaled ? 0.7f : 1.0f;
    float acc = 0.0f, part[2] = {0.0f, 0.0f};
    for (int64_t k = 0; k < p->in; k++) {
        const float w = scale * p->w[k * p->out + j];
        part[k % 2] = fmaf(p->x[i * p->in + k], w, part[k % 2]);
        if ((k + 1) % FV_BLOCK == 0 || k + 1 == p->in) {
            acc = acc + (part[0] + part[1]);
            part[0] = part[1] = 0.0f;
        }
    }
    acc = acc + scale * p->bias[j];
    acc = acc < 0.0f ? 0.0f : acc;
    return p->residual ? acc + p->r[i * p->out + j] : acc;
}

static void check_case(const problem *p, int64_t number) {
    const struct {
        const fovea_context *ctx;
        const char *name;
        int mode;
        bool flush;
    } on[] = {{contexts.scalar, "scalar", FE_TONEAREST, false},
              {contexts.one, "one thread", FE_TONEAREST, false},
              {contexts.three, "three threads", FE_TONEAREST, false},
              {over_tiles, "over tiles", FE_TONEAREST, false},
              {contexts.one, "rounding upward", FE_UPWARD, false},
              {contexts.one, "flushing to zero", FE_TONEAREST, true},
              {over_tiles, "flushing to zero, over tiles", FE_TONEAREST, true}};
    static float want[ROWS * OUT], y[ROWS * OUT];
    for (int64_t i = 0; i < p->rows * p->out; i++)
        want[i] = expected(p, i / p->out, i % p->out);
    const size_t bytes = (size_t)(p->rows * p->out) * sizeof(float);
    for (size_t c = 0; c < sizeof on / sizeof on[0]; c++) {
        fesetround(on[c].mode); /* a named arithmetic has its own mode */
        fp_flush(on[c].flush);
        const bool done = run(on[c].ctx, p, FOVEA_ARITHMETIC_BF16_TILE, y);
        fp_flush(false);
        fesetround(FE_TONEAREST);
        test_check(!done || memcmp(want, y, bytes) == 0,
                   "case %" PRId64 ", %" PRId64 " rows, %" PRId64 " x %" PRId64
                   " weights, %s: not what the formulas give",
                   number, p->rows, p->in, p->out, on[c].name);
    }
    if (run(contexts.scalar, p, FOVEA_ARITHMETIC_EXACT, want) && run(contexts.one, p, FOVEA_ARITHMETIC_BF16, y))
        test_check(memcmp(want, y, bytes) == 0, "case %" PRId64 ": bf16 is not exact", number);
}

static void test_errors(void) {
    static const float w[4] = {0};
    fovea_linear_desc d;
    fovea_linear *map;
    fovea_linear_desc_init(&d);
    d.in_features = 2;
    d.dtype = FOVEA_DTYPE_BF16;
    d.part.weight = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, 2, 2);
    d.arithmetic = FOVEA_ARITHMETIC_BF16_TILE;
    check_status("weights of float32", fovea_linear_create(contexts.one, &d, &map), FOVEA_ERROR_UNSUPPORTED,
                 "FOVEA_ARITHMETIC_BF16_TILE|weight");
    d.arithmetic = FOVEA_ARITHMETIC_FASTEST; /* exact for these */
    if (test_check(fovea_linear_create(contexts.one, &d, &map) == FOVEA_OK, "%s", fovea_error_detail()))
        fovea_linear_destroy(map);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arithmetic_linear", NULL);
    contexts = contexts_make();
    over_tiles = context_of(FOVEA_ISA_BEST, 1, NULL);
    const bool emulates =
        fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, over_tiles->target)->isa == FV_ISA_scalar;
    over_tiles->cpu.emulates_tiles = emulates;
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        static problem p;
        rng r = rng_stream(test_seed() + (uint64_t)n, "arithmetic-linear");
        draw(&p, &r);
        check_case(&p, n);
    }
    test_errors();
    printf("arithmetic-linear: %" PRId64 " products over %s AMX tiles\n", paired, emulates ? "emulated" : "the CPU's");
    test_check(test_scaled(100) < 100 || paired > 100, "only %" PRId64 " products went over tiles", paired);
    if (emulates)
        test_skip("bf16_tile over the CPU's tiles: no amx_bf16 here, they were emulated");
    fovea_context_destroy(over_tiles);
    contexts_free(&contexts);
    return test_end();
}
