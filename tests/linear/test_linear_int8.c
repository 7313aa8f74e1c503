/* Maps of int8 weights with a scale for each output channel have the bits of maps of float32 weights on the numbers
 * that these stand for: any strides, sizes, parts, types of x, rounding and flush-to-zero, tuned or not; packed weights
 * come back; and what is refused. */
#include "attention_case.h"
#include "fp_control.h"
#include "half_pair.h"
#include "linear/heuristics.h"
#include "linear_case.h"
#include "tuning_case.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 150 };

/* A part's weights, as integers and as the floats that they stand for in the mode that is set. */
typedef struct int8_weight {
    int8_t *integers;
    float *floats, *scales;
    fovea_quantization quantization;
    fovea_matrix quantized, plain;
} int8_weight;

static float some_scale(rng *r) {
    switch (rng_below(r, 8)) {
    case 0: return rng_normal(r) * 0x1p-130f; /* subnormal, and products with it */
    case 1: return -rng_unit(r);
    case 2: return 0.0f;
    default: return rng_unit(r) / 64;
    }
}

static int8_weight weight_make(int64_t in, int64_t out, rng *r) {
    int8_weight w = {.integers = must_alloc(in * out, 1),
                     .floats = must_alloc(in * out, sizeof(float)),
                     .scales = must_alloc(out, sizeof(float))};
    const bool transposed = rng_below(r, 2);
    fovea_quantization_init(&w.quantization);
    w.quantization.scales = w.scales;
    for (int64_t o = 0; o < out; o++)
        w.scales[o] = some_scale(r);
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out; o++) {
            const int64_t at = transposed ? o * in + i : i * out + o;
            w.integers[at] = (int8_t)rng_between(r, -128, 127);
            volatile float product = w.scales[o] * (float)w.integers[at];
            w.floats[at] = product;
        }
    w.quantized = transposed ? fovea_matrix_out_in(w.integers, FOVEA_DTYPE_I8, out, in)
                             : fovea_matrix_in_out(w.integers, FOVEA_DTYPE_I8, in, out);
    w.plain = transposed ? fovea_matrix_out_in(w.floats, FOVEA_DTYPE_F32, out, in)
                         : fovea_matrix_in_out(w.floats, FOVEA_DTYPE_F32, in, out);
    return w;
}

static void weight_free(int8_weight *w) {
    free(w->integers);
    free(w->floats);
    free(w->scales);
}

/* The outputs of a problem whose parts have these weights; true if they were computed. */
static bool run(const fovea_context *ctx, linear_problem *p, const int8_weight *w, bool quantized, float *y[]) {
    p->desc.arithmetic = FOVEA_ARITHMETIC_EXACT;
    for (int64_t i = 0; i < p->c.parts; i++) {
        fovea_linear_part *part = p->c.parts == 1 ? &p->desc.part : &p->parts[i];
        part->weight = quantized ? w[i].quantized : w[i].plain;
        part->weight.quantization = quantized ? &w[i].quantization : NULL;
    }
    if (!linear_problem_run(p, ctx))
        return false;
    for (int64_t i = 0; i < p->c.parts; i++) {
        const size_t bytes = (size_t)tensor_floats(&p->y[i]) * sizeof(float);
        y[i] = must_alloc((int64_t)bytes + 1, 1);
        memcpy(y[i], p->y[i].data, bytes);
    }
    return true;
}

/* tuned: a context that has rows for these maps. */
static void test_bits(const fovea_context *ctx, const fovea_context *tuned) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int n = 0, cases = (int)test_scaled(CASES); n < cases; n++) {
        rng r = rng_stream(test_seed() + (uint64_t)n, "int8 weights");
        const linear_case c = rng_below(&r, 3) ? linear_case_random(&r)
                                               : linear_case_plain(1, rng_between(&r, 1, 80), rng_between(&r, 1, 700),
                                                                   rng_between(&r, 1, 300));
        linear_problem *p = linear_problem_make(&c, &r);
        const int mode = rng_below(&r, 3) ? FE_TONEAREST : modes[rng_below(&r, 4)];
        const bool flush = FP_FLUSH && rng_below(&r, 4) == 0;
        int8_weight w[LINEAR_PARTS];
        float *got[LINEAR_PARTS] = {NULL}, *want[LINEAR_PARTS] = {NULL};
        fesetround(mode);
        fp_flush(flush);
        for (int64_t i = 0; i < c.parts; i++)
            w[i] = weight_make(c.groups * c.channels, c.heads[i] * c.head_channels[i], &r);
        if (run(ctx, p, w, false, want) && run(n % 2 ? tuned : ctx, p, w, true, got))
            linear_problem_same(p, (const float *const *)want, "int8 weights, mode %d, flush %d", mode, flush);
        fesetround(FE_TONEAREST);
        fp_flush(false);
        for (int64_t i = 0; i < c.parts; i++) {
            weight_free(&w[i]);
            free(got[i]);
            free(want[i]);
        }
        linear_problem_free(p);
    }
}

/* A map of x of any type, all parts int8 or only some, their scales given alike or not, gated or not; and what comes
 * back of it. */
static void test_types(const fovea_context *ctx) {
    enum { IN = 70, OUT = 45, ROWS = 19 };
    for (int n = 0, cases = (int)test_scaled(60); n < cases; n++) {
        rng r = rng_stream(test_seed() + (uint64_t)n, "int8 types");
        const fovea_dtype type = half_pair_types[rng_below(&r, HALF_PAIR_TYPES)];
        const bool gated = rng_below(&r, 2), floats = rng_below(&r, 3) == 0, mixed = floats || rng_below(&r, 3) == 0;
        const int64_t rows = rng_between(&r, 1, ROWS);
        half_pair x = half_pair_make(rows * IN, type, 1.0f, &r);
        int8_weight w[2] = {weight_make(IN, OUT, &r), weight_make(IN, OUT, &r)};
        if (mixed) { /* one group of all channels */
            w[1].quantization.group_scales = w[1].scales;
            w[1].quantization.scales = NULL;
        }
        static unsigned char y[2][2][ROWS * OUT * sizeof(float)];
        memset(y, 0, sizeof y);
        for (int q = 0; q < 2; q++) {
            fovea_linear_part parts[2] = {{.weight = q ? w[0].quantized : w[0].plain},
                                          {.weight = q && !floats ? w[1].quantized : w[1].plain}};
            for (int i = 0; i < 2; i++)
                if (parts[i].weight.dtype == FOVEA_DTYPE_I8)
                    parts[i].weight.quantization = &w[i].quantization;
            fovea_linear_desc desc;
            fovea_linear_desc_init(&desc);
            desc.arithmetic = FOVEA_ARITHMETIC_EXACT;
            desc.dtype = type;
            desc.in_features = IN;
            desc.part_count = 2;
            desc.parts = parts;
            desc.activation = gated ? FOVEA_ACTIVATION_SILU_GATED : FOVEA_ACTIVATION_NONE;
            fovea_linear *map = NULL;
            if (!test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "pack: %s", fovea_error_detail()))
                continue;
            const fovea_tensor out[2] = {fovea_tensor_bhtd(y[q][0], type, 1, 1, rows, OUT),
                                         fovea_tensor_bhtd(y[q][1], type, 1, 1, rows, OUT)};
            fovea_linear_args args;
            fovea_linear_args_init(&args);
            args.x = fovea_tensor_bhtd(x.half, type, 1, 1, rows, IN);
            args.y = out;
            test_check(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "execute: %s", fovea_error_detail());
            int8_t back[OUT * IN];
            float scales[OUT];
            fovea_dtype packed;
            if (q && !mixed)
                for (int i = 0; i < 2; i++) {
                    bool same = fovea_linear_unpack(map, i, back, NULL, &packed) == FOVEA_OK &&
                                fovea_linear_unpack_scales(map, i, scales) == FOVEA_OK && packed == FOVEA_DTYPE_I8 &&
                                memcmp(scales, w[i].scales, sizeof scales) == 0;
                    for (int64_t o = 0; o < OUT && same; o++)
                        for (int64_t k = 0; k < IN && same; k++)
                            same = back[o * IN + k] ==
                                   w[i].integers[k * w[i].quantized.in_stride + o * w[i].quantized.out_stride];
                    const size_t bytes = fovea_linear_weight_bytes(map); /* whole columns, and a scale for each */
                    test_check(same, "part %d does not come back as it was packed", i);
                    test_check(bytes >= 2 * OUT * (IN + 4) && bytes % (IN + 4) == 0, "%zu bytes", bytes);
                }
            else
                test_check(fovea_linear_unpack_scales(map, 0, scales) == FOVEA_ERROR_UNSUPPORTED, "scales of floats");
            fovea_linear_destroy(map);
        }
        test_check(memcmp(y[0], y[1], sizeof y[0]) == 0, "%s, %s%s: other bits than float32's",
                   type == FOVEA_DTYPE_F32    ? "f32"
                   : type == FOVEA_DTYPE_BF16 ? "bf16"
                                              : "f16",
                   gated ? "gated" : "two parts",
                   floats  ? ", one of floats"
                   : mixed ? ", one of a group"
                           : "");
        weight_free(&w[0]);
        weight_free(&w[1]);
        half_pairs_free();
    }
}

static void refused(const fovea_context *ctx, const fovea_matrix *weight, fovea_arithmetic arithmetic,
                    fovea_status status, const char *sentence) {
    fovea_linear_desc desc;
    fovea_linear *map = (fovea_linear *)&desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = 4;
    desc.part.weight = *weight;
    desc.arithmetic = arithmetic;
    const fovea_status got = fovea_linear_create(ctx, &desc, &map);
    test_check(got == status && !map && strstr(fovea_error_detail(), sentence), "%s: %s", fovea_status_name(got),
               fovea_error_detail());
}

static void test_errors(const fovea_context *ctx) {
    static const int8_t integers[16];
    static const float floats[16];
    fovea_quantization q;
    fovea_quantization_init(&q);
    fovea_matrix w = fovea_matrix_in_out(integers, FOVEA_DTYPE_I8, 4, 4);
    refused(ctx, &w, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_NULL, "has no quantization");
    w.quantization = &q;
    refused(ctx, &w, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_NULL, "scales of its quantization are NULL");
    q.scales = floats;
    refused(ctx, &w, FOVEA_ARITHMETIC_BF16_TILE, FOVEA_ERROR_UNSUPPORTED, "FOVEA_ARITHMETIC_BF16_TILE");
    q.struct_size = sizeof q + 8;
    refused(ctx, &w, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_VERSION, "fovea_quantization");
    q.struct_size = sizeof q;
    w = fovea_matrix_in_out(floats, FOVEA_DTYPE_F32, 4, 4);
    w.quantization = &q;
    refused(ctx, &w, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_DTYPE, "has a quantization, but its dtype is FOVEA_DTYPE_F32");
}

static fovea_context *context_of_rows(const fovea_context *ctx) {
    const fv_linear_choice choice = {.k_block = 37, .row_block = 11, .chunk = 5, .items = 3};
    fv_tuning_value knob[FV_TUNING_KNOBS];
    fv_tuning_of_choice(FV_TUNING_linear_i8, &choice, knob);
    return context_knobs(ctx, files_name("int8"), FV_TUNING_linear_i8, FV_TUNING_linear_few_i8, knob);
}

/* Rows of int8 weights decide for maps of these alone. */
static void test_rows(const fovea_context *tuned) {
    static const int8_t integers[64];
    static const float floats[64];
    for (int quantized = 0; quantized < 2; quantized++) {
        char words[1024];
        fovea_quantization q;
        fovea_quantization_init(&q);
        q.scales = floats;
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = 8;
        desc.part.weight = quantized ? fovea_matrix_in_out(integers, FOVEA_DTYPE_I8, 8, 8)
                                     : fovea_matrix_in_out(floats, FOVEA_DTYPE_F32, 8, 8);
        desc.part.weight.quantization = quantized ? &q : NULL;
        fovea_linear *map = NULL;
        test_check(fovea_linear_create(tuned, &desc, &map) == FOVEA_OK, "pack: %s", fovea_error_detail());
        fovea_linear_describe(map, words, sizeof words);
        test_check((strstr(words, "tuned   for 1 to 8 rows, yes") != NULL) == quantized, "describe: %s", words);
        fovea_linear_destroy(map);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear_int8", NULL);
    fovea_context *ctx = test_context_untuned();
    files_begin();
    fovea_context *tuned = context_of_rows(ctx);
    test_bits(ctx, tuned);
    test_rows(tuned);
    fovea_context_destroy(tuned);
    files_end();
    test_types(ctx);
    test_errors(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
