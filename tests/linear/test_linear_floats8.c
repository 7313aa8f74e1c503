/* Weights that are floats of few bits (fovea/quantization.h): MXFP4 and FP8 E4M3 stand for the numbers of their
 * formats, whatever their exponents and the caller's flush-to-zero; maps of FP8 have the bits of maps of float32
 * weights on these numbers, give their weights back, and refuse arithmetics of integers. */
#include "attention_case.h"
#include "fp_control.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- numbers -- */

/* A float of few bits by its definition: a sign, an exponent with this bias, a fraction. */
static double small_float(int code, int exponent_bits, int fraction_bits, int bias) {
    const int fraction = code & ((1 << fraction_bits) - 1),
              exponent = code >> fraction_bits & ((1 << exponent_bits) - 1);
    const double size = exponent ? ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)
                                 : ldexp(fraction, 1 - bias - fraction_bits);
    return code >> (fraction_bits + exponent_bits) & 1 ? -size : size;
}

/* MXFP4 has no -0 (kernels/groups.h). */
static bool same_number(float got, float want) { return got == want || (isnan(got) && isnan(want)); }

/* Each exponent with each code, in blocks as GGUF has them. */
static void check_mxfp4(const fovea_context *ctx) {
    enum { BLOCKS = 256, BLOCK = 17, ELEMENTS = 32 };
    static uint8_t data[BLOCKS * BLOCK];
    static float got[BLOCKS * ELEMENTS];
    for (int e = 0; e < BLOCKS; e++) {
        data[e * BLOCK] = (uint8_t)e;
        for (int i = 0; i < 16; i++) /* element i is code i, element i + 16 code 15 - i */
            data[e * BLOCK + 1 + i] = (uint8_t)(i | (15 - i) << 4);
    }
    const fovea_matrix m = fovea_matrix_out_in(data, FOVEA_DTYPE_MXFP4, 1, BLOCKS * ELEMENTS);
    for (int flush = 0; flush < 2; flush++) {
        fp_flush(flush);
        const fovea_status status = fovea_dequantize(ctx, &m, got);
        fp_flush(0);
        test_check(status == FOVEA_OK, "%s", fovea_error_detail());
        int64_t wrong = 0, subnormal = 0, infinite = 0, exact = 0;
        for (int i = 0; i < BLOCKS * ELEMENTS; i++) {
            const int e = i / ELEMENTS, k = i % ELEMENTS, code = k < 16 ? k : 31 - k;
            const double number = e == 255 ? (double)NAN : ldexp(small_float(code, 2, 1, 1), e - 127);
            wrong += !same_number(got[i], (float)number);
            subnormal += number != 0 && fabs(number) < 0x1p-126;
            infinite += isinf(got[i]) != 0;
            exact += e >= 2 && e <= 252 && (double)got[i] == number;
        }
        test_check(wrong == 0, "MXFP4, flush %d: %" PRId64 " numbers are wrong", flush, wrong);
        test_check(subnormal > 0 && infinite > 0 && exact == (int64_t)251 * ELEMENTS, "MXFP4 is not exact");
    }
}

static fovea_linear *make(const fovea_context *ctx, const fovea_matrix *w, fovea_arithmetic arithmetic) {
    fovea_linear_desc d;
    fovea_linear *map = NULL;
    fovea_linear_desc_init(&d);
    d.in_features = w->in;
    d.part.weight = *w;
    d.arithmetic = arithmetic;
    test_check(fovea_linear_create(ctx, &d, &map) == FOVEA_OK, "%s", fovea_error_detail());
    return map;
}

/* Codes and scales apart, as safetensors have them: the same numbers, and the same packed blocks. */
static void check_apart(const fovea_context *ctx, rng *r) {
    enum { IN = 96, OUT = 21, BLOCKS = IN / 32 * OUT, BLOCK = 17 };
    uint8_t blocks[BLOCKS * BLOCK], codes[BLOCKS * 16], scales[BLOCKS], back[BLOCKS * BLOCK];
    float want[IN * OUT], got[IN * OUT];
    for (int b = 0; b < BLOCKS; b++) {
        uint8_t code[32];
        for (int i = 0; i < 32; i++)
            code[i] = (uint8_t)rng_below(r, 16);
        blocks[b * BLOCK] = scales[b] = (uint8_t)rng_below(r, 256);
        for (int i = 0; i < 16; i++) {
            blocks[b * BLOCK + 1 + i] = (uint8_t)(code[i] | code[i + 16] << 4);
            codes[b * 16 + i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
        }
    }
    fovea_quantization q;
    fovea_quantization_init(&q);
    q.group_scales = scales;
    fovea_matrix m = fovea_matrix_out_in(codes, FOVEA_DTYPE_MXFP4, OUT, IN);
    const fovea_matrix stored = fovea_matrix_out_in(blocks, FOVEA_DTYPE_MXFP4, OUT, IN);
    m.quantization = &q;
    test_check(fovea_dequantize(ctx, &stored, want) == FOVEA_OK && fovea_dequantize(ctx, &m, got) == FOVEA_OK, "%s",
               fovea_error_detail());
    test_same(got, want, IN * OUT, "codes apart from scales");
    fovea_linear *map = make(ctx, &m, FOVEA_ARITHMETIC_DEFAULT);
    test_check(fovea_linear_unpack(map, 0, back, NULL, NULL) == FOVEA_OK && !memcmp(back, blocks, sizeof back),
               "other blocks come back");
    fovea_linear_destroy(map);
    fovea_linear_desc d;
    fovea_linear_desc_init(&d);
    d.in_features = IN;
    for (int i = 0; i < 5; i++) {
        fovea_quantization_init(&q);
        q.group_scales = i == 0 ? NULL : scales;
        q.zeros = i == 1 ? scales : NULL;
        q.group_size = i == 2 ? 16 : i == 3 ? 96 : 0;
        q.out_group_size = i == 4 ? 3 : 0;
        d.part.weight = m;
        test_check(fovea_linear_create(ctx, &d, &map) == (i ? FOVEA_ERROR_ARGUMENT : FOVEA_ERROR_NULL), "taken: %d", i);
    }
}

static void check_f8(const fovea_context *ctx) {
    uint8_t codes[256];
    float got[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    static const float scales[] = {1.0f, 0x1.234568p-3f, -0x1.fffffep100f, 0x1p-126f};
    for (int s = 0; s < 4; s++) {
        fovea_quantization q;
        fovea_quantization_init(&q);
        q.scales = &scales[s];
        fovea_matrix m = fovea_matrix_out_in(codes, FOVEA_DTYPE_F8_E4M3, 1, 256);
        m.quantization = &q;
        test_check(fovea_dequantize(ctx, &m, got) == FOVEA_OK, "%s", fovea_error_detail());
        for (int i = 0; i < 256; i++) {
            const double number = (i & 127) == 127 ? (double)NAN : small_float(i, 4, 3, 7);
            const float want = (float)(number * (double)scales[s]);
            test_check(same_number(got[i], want) && (isnan(want) || signbit(got[i]) == signbit(want)),
                       "code %d is %.9g", i, (double)got[i]);
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- maps -- */

typedef struct f8_case {
    int64_t in, out, group, outs; /* 0: a scale for each row */
} f8_case;

static void run(const fovea_context *ctx, const fovea_linear *map, int64_t rows, int64_t in, int64_t out, float *x,
                float *y) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, rows, in);
    const fovea_tensor to = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, rows, out);
    args.y = &to;
    test_check(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
}

static void check_map(const fovea_context *ctx, const f8_case *c, rng *r) {
    enum { MOST_ROWS = 70 };
    static const int64_t rows[] = {1, 2, 5, MOST_ROWS};
    const int64_t groups = c->group ? c->in / c->group : 1, outs = c->outs ? (c->out + c->outs - 1) / c->outs : c->out;
    uint8_t *codes = must_alloc(c->in * c->out, 1), *back = must_alloc(c->in * c->out, 1);
    float *scales = must_alloc(groups * outs, sizeof *scales), *numbers = must_alloc(c->in * c->out, sizeof *numbers);
    for (int64_t i = 0; i < c->in * c->out; i++) {
        codes[i] = (uint8_t)rng_below(r, 256);
        codes[i] ^= (codes[i] & 127) == 127; /* no NaN */
    }
    for (int64_t i = 0; i < groups * outs; i++)
        scales[i] = rng_normal(r) * 0x1p-6f;
    fovea_quantization q;
    fovea_quantization_init(&q);
    q.scales = c->group ? NULL : scales;
    q.group_scales = c->group ? scales : NULL;
    q.group_size = c->group;
    q.out_group_size = c->outs;
    fovea_matrix m = fovea_matrix_out_in(codes, FOVEA_DTYPE_F8_E4M3, c->out, c->in);
    m.quantization = &q;
    test_check(fovea_dequantize(ctx, &m, numbers) == FOVEA_OK, "%s", fovea_error_detail());
    int64_t wrong = 0;
    for (int64_t o = 0; o < c->out; o++)
        for (int64_t i = 0; i < c->in; i++) {
            const float scale = scales[(c->outs ? o / c->outs : o) * groups + (c->group ? i / c->group : 0)];
            const double number = small_float(codes[o * c->in + i], 4, 3, 7);
            wrong += numbers[o * c->in + i] != (float)((double)scale * number);
        }
    test_check(wrong == 0, "%" PRId64 " numbers of %" PRId64 " x %" PRId64 " are wrong", wrong, c->in, c->out);
    const fovea_matrix plain = fovea_matrix_out_in(numbers, FOVEA_DTYPE_F32, c->out, c->in);
    fovea_linear *map = make(ctx, &m, FOVEA_ARITHMETIC_DEFAULT), *want_map = make(ctx, &plain, FOVEA_ARITHMETIC_EXACT);
    float *x = must_alloc(MOST_ROWS * c->in, sizeof *x), *y = must_alloc(MOST_ROWS * c->out, sizeof *y),
          *want = must_alloc(MOST_ROWS * c->out, sizeof *want);
    for (int64_t i = 0; i < MOST_ROWS * c->in; i++)
        x[i] = rng_normal(r);
    for (int i = 0; i < 4 && map && want_map; i++) {
        run(ctx, map, rows[i], c->in, c->out, x, y);
        run(ctx, want_map, rows[i], c->in, c->out, x, want);
        test_same(y, want, rows[i] * c->out, "%" PRId64 " rows of %" PRId64 " x %" PRId64, rows[i], c->in, c->out);
    }
    fovea_dtype dtype;
    test_check(fovea_linear_unpack(map, 0, back, NULL, &dtype) == FOVEA_OK && dtype == FOVEA_DTYPE_F8_E4M3 &&
                   !memcmp(back, codes, (size_t)(c->in * c->out)),
               "other weights come back");
    test_check(fovea_linear_weight_bytes(map) < (size_t)(c->in * c->out * 3 / 2 + 8192), "weights take %zu bytes",
               fovea_linear_weight_bytes(map));
    fovea_linear_destroy(map);
    fovea_linear_destroy(want_map);
    free(codes);
    free(back);
    free(scales);
    free(numbers);
    free(x);
    free(y);
    free(want);
}

/* ------------------------------------------------------------------------------------------------------ refused -- */

static void refused(const fovea_context *ctx, const fovea_matrix *w, fovea_arithmetic arithmetic, fovea_status status,
                    const char *sentence) {
    fovea_linear_desc d;
    fovea_linear *map = NULL;
    fovea_linear_desc_init(&d);
    d.in_features = w->in;
    d.part.weight = *w;
    d.arithmetic = arithmetic;
    test_check(fovea_linear_create(ctx, &d, &map) == status && strstr(fovea_error_detail(), sentence), "\"%s\"",
               fovea_error_detail());
    fovea_linear_destroy(map);
}

static void check_refused(const fovea_context *ctx) {
    uint8_t data[256] = {0}, zeros[2] = {0};
    float scales[2] = {1.0f, 1.0f};
    fovea_quantization q;
    fovea_matrix m = fovea_matrix_out_in(data, FOVEA_DTYPE_F8_E4M3, 2, 128);
    m.quantization = &q;
    fovea_quantization_init(&q);
    q.group_scales = scales;
    refused(ctx, &m, FOVEA_ARITHMETIC_Q16, FOVEA_ERROR_UNSUPPORTED, "ask for FOVEA_ARITHMETIC_EXACT");
    refused(ctx, &m, FOVEA_ARITHMETIC_Q8, FOVEA_ERROR_UNSUPPORTED, "ask for FOVEA_ARITHMETIC_EXACT");
    q.zeros = zeros;
    refused(ctx, &m, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_F8_E4M3 takes none");
    q.zeros = NULL;
    q.out_group_size = -1;
    refused(ctx, &m, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_SHAPE, "out_group_size is -1");
    q.out_group_size = 2;
    q.packing = FOVEA_PACKING_GPTQ;
    refused(ctx, &m, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_ARGUMENT, "out_group_size is for packing PLAIN");
    q.packing = FOVEA_PACKING_PLAIN;
    scales[0] = NAN;
    refused(ctx, &m, FOVEA_ARITHMETIC_EXACT, FOVEA_ERROR_ARGUMENT, "NaN or infinite");
}

int main(int argc, char **argv) {
    static const f8_case cases[] = {{128, 128, 128, 128}, {384, 200, 128, 128}, {512, 48, 0, 0},
                                    {1536, 64, 0, 0},     {256, 37, 32, 1},     {2048, 130, 128, 128}};
    test_begin(argc, argv, "linear_floats8", NULL);
    rng r = rng_stream(test_seed(), "linear_floats8");
    fovea_context *ctx = test_context_untuned();
    check_mxfp4(ctx);
    check_apart(ctx, &r);
    check_f8(ctx);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_map(ctx, &cases[i], &r);
    check_refused(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
