/* Linear maps of 16 bits whose products go through pairs: bfloat16 at the edge where pairs would have other bits than
 * float32, and float16 in every rounding mode. The bits are those of float32 on the scalar tier; counts and
 * descriptions say what was multiplied how. */
#include "attention_case.h"
#include "fp_control.h"
#include "half_pair.h"

#include "dispatch/dispatch.h"
#include "linear/linear.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static case_contexts contexts;

/* ------------------------------------------------------------------------------------------------------- guard -- */

enum { GUARD_ROWS = 70, GUARD_IN = 37, GUARD_OUT = 200 };

/* A map whose numbers sit at the edge where products of pairs would have other bits. */
typedef struct guard_data {
    int64_t rows, in, out;
    half_pair x, w; /* [rows][in]; [in][out] */
    float want[GUARD_ROWS * GUARD_OUT];
    int64_t products, paired; /* of the map: fovea_linear_stats */
    int64_t panel;
    bool describes_pairs;
} guard_data;

static guard_data guard_make(int64_t rows, int64_t in, int64_t out, fovea_dtype dtype) {
    return (guard_data){.rows = rows,
                        .in = in,
                        .out = out,
                        .x = half_pair_alloc(rows * in, dtype),
                        .w = half_pair_alloc(in * out, dtype)};
}

static void guard_compute(const fovea_context *ctx, guard_data *g, bool half, int rounding, float *y) {
    fovea_linear_desc d;
    fovea_linear_args args;
    fovea_linear_stats stats;
    fovea_linear *linear;
    fovea_linear_desc_init(&d);
    fovea_linear_args_init(&args);
    fovea_linear_stats_init(&stats);
    d.dtype = half ? g->x.dtype : FOVEA_DTYPE_F32;
    d.y_dtype = FOVEA_DTYPE_F32;
    d.in_features = g->in;
    d.part.weight = fovea_matrix_in_out(half ? g->w.half : g->w.wide, d.dtype, g->in, g->out);
    if (!test_check(fovea_linear_create(ctx, &d, &linear) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    const fovea_tensor out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, g->rows, g->out);
    args.x = fovea_tensor_bhtd(half ? g->x.half : g->x.wide, d.dtype, 1, 1, g->rows, g->in);
    args.y = &out;
    args.stats = &stats;
    const int before = fegetround();
    fesetround(rounding);
    const fovea_status status = fovea_linear_apply(ctx, linear, &args, NULL, 0);
    fesetround(before);
    test_check(status == FOVEA_OK, "%s", fovea_error_detail());
    char text[1000] = "";
    fovea_linear_describe(linear, text, sizeof text);
    g->describes_pairs = strstr(text, "\npairs ") != NULL;
    g->panel = linear->panel;
    g->products = stats.products;
    g->paired = stats.fast_products;
    fovea_linear_destroy(linear);
}

static bool multiplies_pairs(const fovea_context *ctx, fv_type type) {
    return ctx->cpu.fast_pairs && fv_multiply_pairs(type, ctx->target)->isa != FV_ISA_scalar;
}

/* Float32's bits, on one thread and three? */
static void guard_check(guard_data *g, int rounding, const char *what) {
    static float got[GUARD_ROWS * GUARD_OUT];
    const fovea_context *on[] = {contexts.three, contexts.one};
    guard_compute(contexts.scalar, g, false, rounding, g->want);
    test_check(g->paired == 0, "%s: floats in pairs", what);
    for (int i = 0; i < 2; i++) {
        memset(got, 0, sizeof got);
        guard_compute(on[i], g, true, rounding, got);
        test_check(memcmp(got, g->want, (size_t)(g->rows * g->out) * sizeof(float)) == 0,
                   "%s, %" PRId64 " rows: not float32's bits", what, g->rows);
        test_check(g->products == g->rows * fv_ceil_div(g->out, g->panel), "%s: %" PRId64 " products", what,
                   g->products);
    }
}

/* Rows are (1 + 2^-7, 1) 2^ex, columns (1 + 2^-7, -1 - 2^-6) 2^ew: their product is 2^(ex + ew - 14), a subnormal
 * number from ex + ew = -113 on. One row and one column have another number as their last. */
typedef enum falls { FALLS_NONE, FALLS_ALL, FALLS_ROW, FALLS_PANEL } falls;

typedef struct guard_case {
    int ex, ew;
    float at_row, at_column;
    falls falls;
} guard_case;

static const guard_case guard_cases[] = {
    {0, 0, 0.0f, 0.0f, FALLS_NONE},        {-56, -56, 0.0f, 0.0f, FALLS_NONE},
    {-56, -57, 0.0f, 0.0f, FALLS_ALL},     {-112, 0, 0.0f, 0.0f, FALLS_NONE},
    {-113, 0, 0.0f, 0.0f, FALLS_ALL},      {0, -112, 0.0f, 0.0f, FALLS_NONE},
    {0, -113, 0.0f, 0.0f, FALLS_ALL},      {-126, 20, 0.0f, 0.0f, FALLS_NONE},
    {-127, 20, 0.0f, 0.0f, FALLS_ALL},     {20, -126, 0.0f, 0.0f, FALLS_NONE},
    {20, -127, 0.0f, 0.0f, FALLS_ALL},     {0, 0, 0x1p-112f, 0.0f, FALLS_NONE},
    {0, 0, 0x1p-113f, 0.0f, FALLS_ROW},    {0, 0, 0x1p-126f, 0.0f, FALLS_ROW},
    {0, 0, 0x1p-133f, 0.0f, FALLS_ROW},    {0, 0, INFINITY, 0.0f, FALLS_ROW},
    {0, 0, NAN, 0.0f, FALLS_ROW},          {0, 0, 0x1.fep127f, 0.0f, FALLS_NONE},
    {0, 0, 0.0f, 0x1p-112f, FALLS_NONE},   {0, 0, 0.0f, -0x1p-113f, FALLS_PANEL},
    {0, 0, 0.0f, 0x1p-130f, FALLS_PANEL},  {0, 0, 0.0f, -INFINITY, FALLS_PANEL},
    {0, 0, 0.0f, NAN, FALLS_PANEL},        {0, 0, 0.0f, -0.0f, FALLS_NONE},
    {100, 0, 0.0f, 0x1p-126f, FALLS_NONE}, {100, 0, 0.0f, 0x1p-127f, FALLS_PANEL},
    {120, 120, 0.0f, 0.0f, FALLS_NONE},
};

static void test_guard_case(const guard_case *c, int64_t rows, int rounding) {
    enum { ROW = 3, COLUMN = 150, IN = 3 };
    char what[120];
    guard_data g = guard_make(rows, IN, GUARD_OUT, FOVEA_DTYPE_BF16);
    snprintf(what, sizeof what, "2^%d and 2^%d, %a in a row, %a in a column", c->ex, c->ew, (double)c->at_row,
             (double)c->at_column);
    for (int64_t i = 0; i < rows; i++) {
        const float row[IN] = {ldexpf(1.0f + 0x1p-7f, c->ex), ldexpf(1.0f, c->ex),
                               i == fv_min(ROW, rows - 1) ? c->at_row : 0.0f};
        memcpy(g.x.wide + i * IN, row, sizeof row);
    }
    for (int64_t j = 0; j < GUARD_OUT; j++) {
        g.w.wide[j] = ldexpf(1.0f + 0x1p-7f, c->ew);
        g.w.wide[GUARD_OUT + j] = ldexpf(-1.0f - 0x1p-6f, c->ew);
        g.w.wide[2 * GUARD_OUT + j] = j == COLUMN ? c->at_column : 0.0f;
    }
    half_pair_round(&g.x, rows * IN);
    half_pair_round(&g.w, IN * GUARD_OUT);
    guard_check(&g, rounding, what);
    const int64_t panels = g.products / rows,
                  all = rounding == FE_TONEAREST && multiplies_pairs(contexts.one, FV_TYPE_bf16) ? g.products : 0;
    const int64_t fall = c->falls == FALLS_NONE  ? 0
                         : c->falls == FALLS_ALL ? all
                         : c->falls == FALLS_ROW ? panels
                                                 : rows;
    test_check(g.paired == (all ? all - fall : 0), "%s, %" PRId64 " rows: %" PRId64 " of %" PRId64 " products in pairs",
               what, rows, g.paired, g.products);
    half_pairs_free();
}

/* Rows and columns of any magnitude in one map: which pairs of row and panel pass? */
static void test_guard_mixed(int64_t n) {
    static const int exponents[] = {0, 0, 0, -40, -60, -100, -127};
    enum { EXPONENTS = sizeof exponents / sizeof exponents[0] };
    int of_row[GUARD_ROWS], of_column[GUARD_OUT];
    char what[40];
    snprintf(what, sizeof what, "mixed magnitudes %" PRId64, n);
    rng r = rng_stream(test_seed(), what);
    const int64_t in = n % 10 ? GUARD_IN : 1025 + n; /* or several blocks of channels */
    guard_data g = guard_make(rng_between(&r, 1, GUARD_ROWS), in, GUARD_OUT, FOVEA_DTYPE_BF16);
    const bool many = rng_below(&r, 2); /* of a kind behind each other */
    for (int64_t i = 0; i < g.rows; i++) {
        of_row[i] = i > 0 && many && rng_below(&r, 20) ? of_row[i - 1] : exponents[rng_below(&r, EXPONENTS)];
        for (int64_t k = 0; k < g.in; k++)
            g.x.wide[i * g.in + k] =
                ldexpf(rng_uniform(&r, 1.0f, 1.98f), of_row[i]) * (rng_below(&r, 2) ? 1.0f : -1.0f);
    }
    for (int64_t j = 0; j < g.out; j++) {
        of_column[j] = j > 0 && rng_below(&r, 40) ? of_column[j - 1] : exponents[rng_below(&r, EXPONENTS)];
        for (int64_t k = 0; k < g.in; k++)
            g.w.wide[k * g.out + j] =
                ldexpf(rng_uniform(&r, 1.0f, 1.98f), of_column[j]) * (rng_below(&r, 2) ? 1.0f : -1.0f);
    }
    half_pair_round(&g.x, g.rows * g.in);
    half_pair_round(&g.w, g.in * g.out);
    guard_check(&g, FE_TONEAREST, what);
    int64_t paired = 0;
    for (int64_t i = 0; i < g.rows; i++)
        for (int64_t first = 0; first < g.out; first += g.panel) {
            int least = 0;
            for (int64_t j = first; j < fv_min(first + g.panel, g.out); j++)
                least = (int)fv_min(least, of_column[j]);
            paired += of_row[i] + least >= -112 && of_row[i] >= -126 && least >= -126;
        }
    test_check(g.paired == (multiplies_pairs(contexts.one, FV_TYPE_bf16) ? paired : 0),
               "%s, %" PRId64 " rows: %" PRId64 " products in pairs instead of %" PRId64, what, g.rows, g.paired,
               paired);
    half_pairs_free();
}

static void test_guard(void) {
    for (size_t i = 0; i < sizeof guard_cases / sizeof guard_cases[0]; i++)
        for (int64_t rows = 1; rows <= GUARD_ROWS; rows = 3 * rows + 4) {
            test_guard_case(&guard_cases[i], rows, FE_TONEAREST);
            if (i < 3)
                test_guard_case(&guard_cases[i], rows, FE_UPWARD);
        }
    for (int64_t n = 0, count = test_scaled(60); n < count; n++)
        test_guard_mixed(n);
    if (!multiplies_pairs(contexts.one, FV_TYPE_bf16))
        test_skip("linear maps in pairs of bfloat16: this CPU or tier has neither a fast VDPBF16PS nor BFMLALB");
}

/* Float16 from its subnormal numbers to its largest, in any rounding mode, where the caller flushes float16, too; Inf
 * and NaN in a row and a column. */
static void test_float16(void) {
    static const int rounding[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const bool pairs = multiplies_pairs(contexts.one, FV_TYPE_f16);
    const uint64_t before = fp_control();
    for (int n = 0; n < 16; n++) {
        char what[40];
        snprintf(what, sizeof what, "float16 %d", n);
        rng r = rng_stream(test_seed(), what);
        guard_data g = guard_make(rng_between(&r, 1, n < 8 ? 6 : GUARD_ROWS), GUARD_IN, GUARD_OUT, FOVEA_DTYPE_F16);
        for (int64_t i = 0; i < g.rows * g.in; i++)
            g.x.wide[i] = ldexpf(rng_uniform(&r, -1.98f, 1.98f), (int)rng_between(&r, -24, 15));
        for (int64_t i = 0; i < g.in * g.out; i++)
            g.w.wide[i] = ldexpf(rng_uniform(&r, -1.98f, 1.98f), (int)rng_between(&r, -24, 15));
        g.x.wide[0] = n % 3 ? INFINITY : 1.0f;
        g.w.wide[3 * g.out + 1] = n % 3 == 1 ? NAN : 1.0f;
        half_pair_round(&g.x, g.rows * g.in);
        half_pair_round(&g.w, g.in * g.out);
        fp_control_set(before | (n / 4 % 2 ? FP_FLUSH_HALF : 0));
        const uint64_t set = fp_control(); /* without the bit where the CPU has none */
        guard_check(&g, rounding[n % 4], what);
        test_check(fp_control() == set, "%s: the mode is another", what);
        fp_control_set(before);
        test_check(g.paired == (pairs ? g.products : 0), "%s: %" PRId64 " of %" PRId64 " products in pairs", what,
                   g.paired, g.products);
        test_check(g.describes_pairs == pairs, "%s: the description %s pairs", what, pairs ? "lacks" : "has");
        half_pairs_free();
    }
    if (!pairs)
        test_skip("linear maps in pairs of float16: this CPU or tier has no FMLAL");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "half_linear_pairs", NULL);
    contexts = contexts_make();
    test_guard();
    test_float16();
    contexts_free(&contexts);
    return test_end();
}
