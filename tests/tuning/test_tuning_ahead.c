/* A tuning file says how far ahead few rows fetch weights of stored formats: it is read back, it reaches the product,
 * and bits are those of the scalar tier. */
#include "quantized_case.h"
#include "tuning_case.h"

#include "dispatch/dispatch.h"
#include "linear/linear.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 512, OUT = 64, MOST = FV_LINEAR_FEW_ROWS + 1 };

static float x[MOST * IN], want[MOST * OUT], got[MOST * OUT];

/* In place of the product of few rows: notes the distance that it is told. */
static fv_multiply_fn *real_few;
static int64_t told_ahead, told_calls;

static void spy_few(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                    const fv_prefetch *prefetch) {
    told_ahead = prefetch ? prefetch->ahead : 0;
    told_calls++;
    real_few(a, b, c, ldc, epilogue, prefetch);
}

static fovea_linear *pack(const fovea_context *ctx, const quantized_weight *w) {
    fovea_linear_desc desc;
    fovea_linear *map;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.part.weight = w->matrix;
    desc.arithmetic = FOVEA_ARITHMETIC_Q16;
    if (!test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "pack: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    return map;
}

static void apply(const fovea_context *ctx, const fovea_linear *map, int64_t rows, float *y) {
    const fovea_tensor to = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, rows, OUT);
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, rows, IN);
    args.y = &to;
    test_check(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "apply: %s", fovea_error_detail());
}

static void make_want(const quantized_weight *w) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.isa = FOVEA_ISA_SCALAR;
    options.tuning_file = "";
    if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    fovea_linear *map = pack(ctx, w);
    apply(ctx, map, MOST, want);
    fovea_linear_destroy(map);
    fovea_context_destroy(ctx);
}

/* Up to 8 rows take the distance, more the default; it is another plan only where few rows read a stream. */
static void test_distance(const fovea_context *plain, const quantized_weight *w, int64_t ahead) {
    const fv_tuning_op op = fv_tuning_of(FV_TUNING_linear_f32, FOVEA_DTYPE_Q4_K, FOVEA_ARITHMETIC_EXACT, false);
    fv_tuning_value knob[FV_TUNING_KNOBS] = {{NULL, 0}};
    knob[FV_LINEAR_KNOB_ahead].number = ahead;
    fovea_context *ctx = context_knobs(plain, files_name("ahead"), op, op + 1, knob);
    fovea_linear *map = pack(ctx, w);
    const bool streams = fv_linear_streams(map);
    fv_kernel spy = *map->few;
    real_few = spy.run.multiply;
    spy.run.multiply = spy_few;
    map->few = &spy;
    for (int64_t rows = 1; rows <= MOST; rows++) {
        const fv_linear_choice none = {0}, chosen = {.ahead = ahead}, usual = fv_linear_effect(map, 1, rows, &none),
                               does = fv_linear_effect(map, 1, rows, &chosen);
        const bool few = rows <= fv_linear_heuristics(map, 1, rows, NULL).few_rows, takes = rows < MOST && ahead != 0;
        told_calls = 0;
        apply(ctx, map, rows, got);
        test_check((told_calls > 0) == few && (!few || told_ahead == (takes ? ahead : FV_AHEAD)),
                   "ahead=%" PRId64 ", %" PRId64 " rows: %" PRId64 " calls, the last told %" PRId64, ahead, rows,
                   told_calls, told_ahead);
        test_check(memcmp(got, want, (size_t)(rows * OUT) * sizeof *got) == 0,
                   "ahead=%" PRId64 ", %" PRId64 " rows: other bits", ahead, rows);
        const bool other = few && takes && streams && ahead != FV_AHEAD;
        test_check((memcmp(&does, &usual, sizeof does) != 0) == other, "ahead=%" PRId64 ", %" PRId64 " rows: %s", ahead,
                   rows, other ? "the same plan" : "another plan");
    }
    fovea_linear_destroy(map);
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    static const int64_t distances[] = {0, -1, 1, FV_AHEAD, 8192, 1 << 20};
    test_begin(argc, argv, "tuning_ahead", NULL);
    files_begin();
    rng r = rng_stream(test_seed(), "ahead");
    fovea_context *plain = context_tuned("", 1);
    quantized_weight w;
    int kind = 0;
    while (kind < quantized_kind_count && strcmp(quantized_kinds[kind].name, "q4_k") != 0)
        kind++;
    if (test_check(kind < quantized_kind_count, "no weights of q4_k") && fv_dtype_built(FOVEA_DTYPE_Q4_K)) {
        quantized_make(&w, &quantized_kinds[kind], IN, OUT, &r);
        rng_fill_normal(&r, x, MOST * IN);
        make_want(&w);
        for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++)
            test_distance(plain, &w, distances[i]);
        quantized_free(&w);
    }
    fovea_context_destroy(plain);
    files_end();
    return test_end();
}
