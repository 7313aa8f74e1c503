/* Maps of quantized weights: EXACT has the bits of float32 on the numbers that they stand for; Q16 and Q8 have one
 * answer on every tier, with any threads, rows and parts, within their bound of float64; what is packed comes back; and
 * what is refused. */
#include "attention_case.h"
#include "core/core.h"
#include "quantization/quantization.h"
#include "quantized_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IN = 2304, MOST_OUT = 136, MOST_ROWS = 40 };

typedef struct problem {
    const quantized_kind *kind;
    quantized_weight w;
    int64_t in, out, rows;
    float *x, *numbers, *bias;
} problem;

/* Over weights that are made. */
static void problem_fill(problem *p, const quantized_kind *kind, int64_t rows, rng *r) {
    p->kind = kind;
    p->in = p->w.matrix.in;
    p->out = p->w.matrix.out;
    p->rows = rows;
    p->x = must_alloc(p->rows * p->in, sizeof(float));
    p->numbers = must_alloc(p->in * p->out, sizeof(float));
    p->bias = must_alloc(p->out, sizeof(float));
    for (int64_t i = 0; i < p->rows * p->in; i++)
        p->x[i] = rng_normal(r) * (rng_below(r, 50) ? 1.0f : 30.0f);
    for (int64_t i = 0; i < p->out; i++)
        p->bias[i] = rng_normal(r) / 64;
    fv_quantized_numbers(&p->w.matrix, 0, p->out, p->numbers);
}

static void problem_make(problem *p, const quantized_kind *kind, rng *r) {
    const int64_t most = kind->unit == 1 ? 1500 : (rng_below(r, 3) ? 512 : MOST_IN) / kind->unit;
    quantized_make(&p->w, kind, kind->unit * rng_between(r, 1, most), 8 * rng_between(r, 1, MOST_OUT / 8), r);
    problem_fill(p, kind, rng_below(r, 3) ? rng_between(r, 1, 10) : rng_between(r, 1, MOST_ROWS), r);
}

static void problem_free(problem *p) {
    quantized_free(&p->w);
    free(p->x);
    free(p->numbers);
    free(p->bias);
}

static fovea_linear *pack(const fovea_context *ctx, const problem *p, const fovea_matrix *w,
                          fovea_arithmetic arithmetic) {
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = p->in;
    desc.part.weight = *w;
    desc.part.bias = p->bias;
    desc.part.bias_dtype = FOVEA_DTYPE_F32;
    desc.arithmetic = arithmetic;
    fovea_linear *map = NULL;
    test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s, in %" PRId64 ": %s", p->kind->name, p->in,
               fovea_error_detail());
    return map;
}

/* Rows [first, first + count) of a map, which it frees. */
static void run(const fovea_context *ctx, fovea_linear *map, const problem *p, int64_t first, int64_t count, float *y) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd(p->x + first * p->in, FOVEA_DTYPE_F32, 1, 1, count, p->in);
    const fovea_tensor out = fovea_tensor_bhtd(y + first * p->out, FOVEA_DTYPE_F32, 1, 1, count, p->out);
    args.y = &out;
    if (map)
        test_check(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    fovea_linear_destroy(map);
}

/* The bound of an output of Q16 or Q8: half a unit of each x in each group, and float32's roundings. */
static void check_error(const problem *p, const float *y, int most) {
    const double eps = 0x1p-24;
    const bool blocks = fv_dtype_block_of(p->kind->dtype).elements > 1;
    const int64_t group = p->kind->dtype == FOVEA_DTYPE_Q6_K ? 16
                          : blocks                           ? 32
                          : p->kind->group                   ? p->kind->group
                                                             : 1024;
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t o = 0; o < p->out; o++) {
            double exact = p->bias[o], bound = fabs(exact) * 4 * eps, sum = 0;
            for (int64_t g = 0; g * group < p->in; g++) {
                double top = 0, weights = 0;
                for (int64_t t = 0; t < p->in; t++) {
                    const int64_t of = p->w.group_of ? p->w.group_of[t] : t / group;
                    if (of != g)
                        continue;
                    const double x = p->x[i * p->in + t], w = p->numbers[o * p->in + t];
                    exact += x * w;
                    sum += fabs(x * w);
                    weights += fabs(w);
                    top = fmax(top, fabs(x));
                }
                bound += top / most * 0.5001 * weights + top * weights * 8 * eps;
            }
            bound += sum * eps * (double)(p->in / group + 8);
            const double error = fabs(y[i * p->out + o] - exact);
            /* Minimums cancel: each of both terms is rounded. */
            if (!test_check(error <= bound * 2 + 1e-30,
                            "%s, in %" PRId64 ": row %" PRId64 ", column %" PRId64 ": error %g, bound %g",
                            p->kind->name, p->in, i, o, error, bound))
                return;
        }
}

/* Packed weights come back, and packed again has the bits of before. */
static void test_back(const problem *p, const fovea_context *ctx, const float *want) {
    const int64_t n = p->rows * p->out, groups = p->kind->group ? p->in / p->kind->group : 1;
    fovea_linear *map = pack(ctx, p, &p->w.matrix, FOVEA_ARITHMETIC_DEFAULT);
    void *data = must_alloc(p->in * p->out * 2, 1), *scales = must_alloc(p->out * groups, sizeof(float));
    uint8_t *zeros = must_alloc(p->out * groups, 1);
    int32_t *group_of = must_alloc(p->in, sizeof *group_of);
    float *y = must_alloc(n, sizeof *y);
    fovea_dtype dtype;
    fovea_quantization q;
    fovea_quantization_init(&q);
    test_check(fovea_linear_unpack(map, 0, data, NULL, &dtype) == FOVEA_OK && dtype == p->kind->dtype, "%s: %s",
               p->kind->name, fovea_error_detail());
    fovea_matrix back = fovea_matrix_out_in(data, dtype, p->out, p->in);
    back.out_stride += dtype == FOVEA_DTYPE_U4 && p->in % 2; /* rows begin with a byte */
    const fovea_status status = fovea_linear_unpack_groups(map, 0, &q, scales, zeros, group_of);
    if (p->kind->scale_dtype) {
        test_check(status == FOVEA_OK && (q.zeros != NULL) == p->kind->zeros &&
                       (q.group_of != NULL) == (p->kind->ordered && groups > 1),
                   "%s: %s", p->kind->name, fovea_error_detail());
        back.quantization = &q;
    } else {
        test_check(status == FOVEA_ERROR_UNSUPPORTED && strstr(fovea_error_detail(), "no groups with separate scales"),
                   "%s: %s", p->kind->name, fovea_error_detail());
        test_check(memcmp(data, p->w.data, (size_t)(fv_dtype_bytes(dtype, p->in * p->out))) == 0, "%s: other blocks",
                   p->kind->name);
    }
    const fv_quantized packed = fv_quantized_of(&p->w.matrix);
    const int64_t bytes = (int64_t)fovea_linear_weight_bytes(map),
                  column = fv_quantized_words(&packed, FV_LANES, p->in) * 4 / FV_LANES;
    test_check(bytes % column == 0 && bytes / column >= p->out && bytes / column < p->out + 64,
               "%s: %" PRId64 " bytes of %" PRId64 " x %" PRId64 ", a column and its scales being %" PRId64,
               p->kind->name, bytes, p->in, p->out, column);
    fovea_linear_destroy(map);
    run(ctx, pack(ctx, p, &back, FOVEA_ARITHMETIC_DEFAULT), p, 0, p->rows, y);
    test_same(y, want, n, "%s packed again", p->kind->name);
    free(data);
    free(scales);
    free(zeros);
    free(group_of);
    free(y);
}

/* Weights that are not all quantized, or not in one way, and arithmetics that do not take them. */
static void test_refused(const fovea_context *ctx, const problem *p) {
    fovea_linear_part parts[2] = {{.weight = p->w.matrix},
                                  {.weight = fovea_matrix_out_in(p->numbers, FOVEA_DTYPE_F32, p->out, p->in)}};
    fovea_linear *map = NULL;
    for (int i = 0; i < 4; i++) {
        static const char *const sentences[] = {"some of the weights are quantized", "no weights are quantized",
                                                "has a scale", "FOVEA_ARITHMETIC_BF16_TILE"};
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = p->in;
        desc.part_count = i == 0 ? 2 : 1;
        desc.parts = i == 1 ? parts + 1 : parts;
        desc.arithmetic = i == 1 ? FOVEA_ARITHMETIC_Q8 : i == 3 ? FOVEA_ARITHMETIC_BF16_TILE : FOVEA_ARITHMETIC_DEFAULT;
        parts[0].has_scale = i == 2;
        parts[0].scale = 0.5;
        test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_ERROR_UNSUPPORTED && !map &&
                       strstr(fovea_error_detail(), sentences[i]),
                   "%s, case %d: %s", p->kind->name, i, fovea_error_detail());
    }
}

static void test_problem(const problem *given, const fovea_context *ctx, const fovea_context *scalar,
                         const fovea_context *many, rng *r) {
    const problem p = *given;
    const quantized_kind *kind = p.kind;
    const int64_t n = p.rows * p.out;
    float *want = must_alloc(n, sizeof(float)), *y = must_alloc(n, sizeof(float));
    const fovea_matrix plain = fovea_matrix_out_in(p.numbers, FOVEA_DTYPE_F32, p.out, p.in);
    run(ctx, pack(ctx, &p, &plain, FOVEA_ARITHMETIC_EXACT), &p, 0, p.rows, want);
    run(ctx, pack(ctx, &p, &p.w.matrix, FOVEA_ARITHMETIC_EXACT), &p, 0, p.rows, y);
    test_same(y, want, n, "%s exact, %" PRId64 " x %" PRId64 ", rows %" PRId64, kind->name, p.in, p.out, p.rows);
    for (int q8 = 0; q8 < 2; q8++) {
        const fovea_arithmetic a = q8 ? FOVEA_ARITHMETIC_Q8 : FOVEA_ARITHMETIC_DEFAULT;
        run(scalar, pack(scalar, &p, &p.w.matrix, a), &p, 0, p.rows, want);
        check_error(&p, want, q8 ? 127 : 16319);
        run(ctx, pack(ctx, &p, &p.w.matrix, a), &p, 0, p.rows, y);
        test_same(y, want, n, "%s %s, %" PRId64 " x %" PRId64 ", rows %" PRId64, kind->name, q8 ? "q8" : "q16", p.in,
                  p.out, p.rows);
        run(many, pack(ctx, &p, &p.w.matrix, a), &p, 0, p.rows, y);
        test_same(y, want, n, "%s %s, packed by another context, 3 threads", kind->name, q8 ? "q8" : "q16");
        const int64_t first = rng_between(r, 0, p.rows - 1), count = rng_between(r, 1, p.rows - first);
        memset(y, 0, (size_t)n * sizeof *y);
        run(ctx, pack(ctx, &p, &p.w.matrix, a), &p, first, count, y);
        test_same(y + first * p.out, want + first * p.out, count * p.out, "%s %s, rows alone", kind->name,
                  q8 ? "q8" : "q16");
    }
    run(ctx, pack(ctx, &p, &p.w.matrix, FOVEA_ARITHMETIC_DEFAULT), &p, 0, p.rows, want);
    test_back(&p, ctx, want);
    test_refused(ctx, &p);
    free(want);
    free(y);
}

static void test_kind(const quantized_kind *kind, const fovea_context *ctx, const fovea_context *scalar,
                      const fovea_context *many, rng *r) {
    problem p;
    problem_make(&p, kind, r);
    test_problem(&p, ctx, scalar, many, r);
    problem_free(&p);
}

/* Groups of more than FV_I8_CHANNELS in act-order, and parts of which the groups of one are several of the other's. */
static void test_large_groups(const fovea_context *ctx, const fovea_context *scalar, const fovea_context *many,
                              rng *r) {
    static const quantized_kind kinds[] = {
        {"4 bits, groups of 2048, act-order", FOVEA_DTYPE_U4, 2048, FOVEA_DTYPE_F16, 0, false, true, 2048},
        {"4 bits, groups of 2048", FOVEA_DTYPE_U4, 2048, FOVEA_DTYPE_F16, 0, false, false, 2048},
        {"4 bits, groups of 1024", FOVEA_DTYPE_U4, 1024, FOVEA_DTYPE_F16, 0, false, false, 1024}};
    problem p[3];
    for (int k = 0; k < 3; k++) {
        quantized_make(&p[k].w, &kinds[k], 4096, 8, r);
        problem_fill(&p[k], &kinds[k], 3, r);
        test_problem(&p[k], ctx, scalar, many, r);
    }
    for (int k = 0; k < 3; k++) { /* of two parts, which differ in the size of groups, or in the order of one of them */
        const fovea_linear_part parts[2] = {{.weight = p[k].w.matrix}, {.weight = p[(k + 1) % 3].w.matrix}};
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = 4096;
        desc.part_count = 2;
        desc.parts = parts;
        fovea_linear *map;
        test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_ERROR_UNSUPPORTED &&
                       strstr(fovea_error_detail(), "part 1 has another quantization than part 0"),
                   "parts %d and the next: %s", k, fovea_error_detail());
        fovea_linear_destroy(map);
    }
    for (int k = 0; k < 3; k++)
        problem_free(&p[k]);
}

/* Q8 has a scale for each 128 channels: a large x takes no digits from channels of other groups. */
static void test_split(const fovea_context *ctx) {
    static const struct {
        int64_t in, group, lost; /* channels whose X are 0 next to the large one */
    } cases[] = {{200, 0, 128}, {1000, 0, 128}, {1024, 256, 128}, {1040, 208, 208}, {2048, 2048, 128}};
    enum { MOST_CHANNELS = 2048, OUT = 8 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        static int8_t w[OUT * MOST_CHANNELS];
        static float x[MOST_CHANNELS];
        const int64_t in = cases[c].in;
        float scales[OUT * MOST_CHANNELS / 16], bias[OUT] = {0}, y[OUT];
        for (int64_t i = 0; i < OUT * in; i++)
            w[i] = (int8_t)(i % in == 3 ? 0 : 1 + i / in);
        for (int64_t i = 0; i < OUT * MOST_CHANNELS / 16; i++)
            scales[i] = 1.0f;
        for (int64_t t = 0; t < in; t++)
            x[t] = t == 3 ? 1e6f : 1.0f;
        static const quantized_kind kind = {.name = "a large x", .dtype = FOVEA_DTYPE_I8};
        problem p = {.kind = &kind, .in = in, .out = OUT, .rows = 1, .x = x, .bias = bias};
        p.w.matrix = fovea_matrix_out_in(w, FOVEA_DTYPE_I8, OUT, in);
        fovea_quantization_init(&p.w.quantization);
        p.w.quantization.scales = cases[c].group ? NULL : scales;
        p.w.quantization.group_scales = cases[c].group ? scales : NULL;
        p.w.quantization.group_size = cases[c].group;
        p.w.matrix.quantization = &p.w.quantization;
        run(ctx, pack(ctx, &p, &p.w.matrix, FOVEA_ARITHMETIC_Q8), &p, 0, 1, y);
        for (int64_t o = 0; o < OUT; o++) {
            const double want = (double)((in - cases[c].lost) * (1 + o));
            test_check(fabs(y[o] - want) <= want * 1e-5,
                       "groups of %" PRId64 " in %" PRId64 ", column %" PRId64 ": %g, not %g", cases[c].group, in, o,
                       y[o], want);
        }
    }
}

/* Rows of an odd number of 4 bits. */
static void test_odd(const fovea_context *ctx, const fovea_context *scalar, const fovea_context *many, rng *r) {
    static const quantized_kind kind = {"4 bits, odd",       FOVEA_DTYPE_U4, 0,     FOVEA_DTYPE_F32,
                                        FOVEA_PACKING_PLAIN, false,          false, 1};
    problem p;
    quantized_make(&p.w, &kind, 38, 16, r);
    p.w.matrix.in = 37;
    problem_fill(&p, &kind, 3, r);
    test_problem(&p, ctx, scalar, many, r);
    problem_free(&p);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear_quantized", NULL);
    fovea_context *ctx = test_context_untuned(), *scalar, *many;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = FOVEA_ISA_SCALAR;
    options.threads = 1;
    test_check(fovea_context_create(&options, &scalar) == FOVEA_OK, "%s", fovea_error_detail());
    options.isa = test_isa();
    options.threads = 3;
    test_check(fovea_context_create(&options, &many) == FOVEA_OK, "%s", fovea_error_detail());
    for (int k = 0; k < quantized_kind_count; k++)
        for (int n = 0; n < (int)test_scaled(6); n++) {
            rng r = rng_stream(test_seed() + (uint64_t)n, quantized_kinds[k].name);
            test_kind(&quantized_kinds[k], ctx, scalar, many, &r);
        }
    rng r = rng_stream(test_seed(), "shapes");
    test_large_groups(ctx, scalar, many, &r);
    test_odd(ctx, scalar, many, &r);
    test_split(ctx);
    fovea_context_destroy(ctx);
    fovea_context_destroy(scalar);
    fovea_context_destroy(many);
    return test_end();
}
