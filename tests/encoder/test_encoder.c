/* fovea/encoder.h: the bits of the formulas of kernels.h on every tier and with every number of threads, in every type,
 * in place too; how far they are from float64; and what they refuse. Bits of activations, number by number:
 * test-activation. */
#include "encoder_refused.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 60, TYPES = 3, CONTEXTS = 4, MOST_TABLES = 4 };

static const fovea_dtype types[TYPES] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

static fovea_dtype some_type(rng *r) { return types[rng_below(r, TYPES)]; }
static int64_t some_width(rng *r) { return rng_below(r, 4) == 0 ? rng_between(r, 500, 1600) : rng_between(r, 1, 100); }

/* n numbers, and the same in a type, which the floats are brought to; some are NaN, or zeros of either sign. */
static float *numbers(int64_t n, rng *r, fovea_dtype dtype, void **typed) {
    float *x = must_alloc(n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_below(r, 50) ? 2.0f * rng_normal(r) + 0.3f : rng_below(r, 4) ? -0.0f : NAN;
    *typed = must_alloc(n + 1, sizeof(float));
    convert_elements(n, x, FOVEA_DTYPE_F32, *typed, dtype);
    convert_elements(n, *typed, dtype, x, FOVEA_DTYPE_F32);
    return x;
}

/* The result of a call: floats of which NaN is the canonical one, rounded to a type. */
static void expect(float *want, int64_t n, fovea_dtype dtype, const void *got, const char *what, int64_t rows,
                   int64_t width, int context) {
    for (int64_t i = 0; i < n; i++)
        want[i] = float_is_nan(want[i]) ? NAN : want[i];
    void *typed = must_alloc(n + 1, sizeof(float));
    convert_elements(n, want, FOVEA_DTYPE_F32, typed, dtype);
    test_check(memcmp(typed, got, (size_t)(n * fv_dtype_size(dtype))) == 0,
               "%s of %" PRId64 " x %" PRId64 ", type %d, context %d: other bits", what, rows, width, (int)dtype,
               context);
    free(typed);
}

static void test_embedding(const fovea_context *const all[CONTEXTS], rng *r) {
    const int64_t tokens = rng_between(r, 0, 40), width = some_width(r), count = rng_between(r, 1, MOST_TABLES);
    const fovea_dtype y_type = some_type(r);
    fovea_embedding_table tables[MOST_TABLES];
    float *floats[MOST_TABLES], *want = must_alloc(tokens * width + 1, sizeof *want);
    int64_t *ids[MOST_TABLES];
    fovea_embedding_args args;
    fovea_embedding_args_init(&args);
    for (int64_t t = 0; t < count; t++) {
        void *data;
        const int64_t rows = rng_between(r, 1, 9), gap = rng_below(r, 3);
        tables[t] = (fovea_embedding_table){.dtype = some_type(r), .rows = rows, .stride = width + gap};
        floats[t] = numbers(rows * (width + gap), r, tables[t].dtype, &data);
        tables[t].data = data;
        ids[t] = must_alloc(tokens + 1, sizeof **ids);
        for (int64_t i = 0; i < tokens; i++)
            ids[t][i] = rng_below(r, rows);
        tables[t].ids = rng_below(r, 4) ? ids[t] : NULL;
    }
    args.tables = tables;
    args.table_count = count;
    args.scale = rng_below(r, 2) ? 1.0 : 19.6;
    for (int64_t i = 0; i < tokens * width; i++) {
        float sum = 0.0f;
        for (int64_t t = 0; t < count; t++) {
            const float x = floats[t][(tables[t].ids ? ids[t][i / width] : 0) * tables[t].stride + i % width];
            sum = t ? sum + x : x;
        }
        want[i] = sum * (float)args.scale;
    }
    for (int c = 0; c < CONTEXTS; c++) {
        void *y = must_alloc(tokens * width + 1, sizeof(float));
        args.y = rows_of(y, y_type, tokens, width);
        test_check(fovea_embedding_sum(all[c], &args) == FOVEA_OK, "%s", fovea_error_detail());
        expect(want, tokens * width, y_type, y, "sum of embeddings", tokens, width, c);
        free(y);
    }
    for (int64_t t = 0; t < count; t++) {
        free((void *)(uintptr_t)tables[t].data);
        free(floats[t]);
        free(ids[t]);
    }
    free(want);
}

static double exactly(fovea_activation activation, double t) {
    switch (activation) {
    case FOVEA_ACTIVATION_RELU: return t < 0 ? 0 : t;
    case FOVEA_ACTIVATION_GELU: return t * 0.5 * (1 + erf(t * sqrt(0.5)));
    case FOVEA_ACTIVATION_GELU_TANH: return t * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (t + 0.044715 * t * t * t)));
    case FOVEA_ACTIVATION_SILU: return t / (1 + exp(-t));
    case FOVEA_ACTIVATION_TANH: return tanh(t);
    case FOVEA_ACTIVATION_SIGMOID: return 1 / (1 + exp(-t));
    case FOVEA_ACTIVATION_SOFTPLUS: return t > 20 ? t : log1p(exp(t));
    default: return t;
    }
}

static void test_activate(const fovea_context *const all[CONTEXTS], rng *r) {
    static const fovea_activation kinds[] = {
        FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_RELU, FOVEA_ACTIVATION_GELU,    FOVEA_ACTIVATION_GELU_TANH,
        FOVEA_ACTIVATION_SILU, FOVEA_ACTIVATION_TANH, FOVEA_ACTIVATION_SIGMOID, FOVEA_ACTIVATION_SOFTPLUS};
    const int64_t rows = rng_between(r, 1, 40), width = some_width(r), n = rows * width;
    const fovea_dtype in[3] = {some_type(r), some_type(r), some_type(r)},
                      y_type = rng_below(r, 2) ? in[0] : some_type(r);
    const bool in_place = y_type == in[0] && rng_below(r, 2), gates = rng_below(r, 2), adds = rng_below(r, 2);
    void *typed[3];
    float *x[3], *first = must_alloc(n, sizeof *first);
    for (int i = 0; i < 3; i++)
        x[i] = numbers(n, r, in[i], &typed[i]);
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    args.activation = kinds[rng_below(r, (int64_t)(sizeof kinds / sizeof kinds[0]))];
    if (gates)
        args.up = rows_of(typed[1], in[1], rows, width);
    if (adds)
        args.residual = rows_of(typed[2], in[2], rows, width);
    for (int c = 0; c < CONTEXTS; c++) {
        void *y = must_alloc(n, sizeof(float));
        if (in_place)
            memcpy(y, typed[0], (size_t)(n * fv_dtype_size(y_type)));
        args.x = rows_of(in_place ? y : typed[0], in[0], rows, width);
        args.y = rows_of(y, y_type, rows, width);
        test_check(fovea_activate(all[c], &args) == FOVEA_OK, "%s", fovea_error_detail());
        float *floats = must_alloc(n, sizeof *floats);
        convert_elements(n, y, y_type, floats, FOVEA_DTYPE_F32);
        if (c == 0)
            memcpy(first, floats, (size_t)n * sizeof *first);
        test_check(memcmp(first, floats, (size_t)n * sizeof *first) == 0, "activation %d, context %d: other bits",
                   (int)args.activation, c);
        const double rounding = y_type == FOVEA_DTYPE_BF16 ? 0x1p-8 : y_type == FOVEA_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
        for (int64_t i = 0; i < n && c == 0; i++) {
            const double up = gates ? (double)x[1][i] : 1.0, act = exactly(args.activation, (double)x[0][i]);
            const double exact = act * up + (adds ? (double)x[2][i] : 0.0);
            const double bound =
                0x1p-21 * (fabs((double)x[0][i]) + 1.0) * fabs(up) + 2 * rounding * fabs(exact) + 0x1p-24;
            test_check(isnan(exact) ? float_is_nan(floats[i]) : fabs((double)floats[i] - exact) <= bound,
                       "activation %d of %g is %g, float64 gives %.17g", (int)args.activation, (double)x[0][i],
                       (double)floats[i], exact);
        }
        free(floats);
        free(y);
    }
    for (int i = 0; i < 3; i++) {
        free(x[i]);
        free(typed[i]);
    }
    free(first);
}

/* A channel of a sequence by kernels.h, and in float64 with a bound. */
static float pooled(const float *x, int64_t width, const fovea_pool_tokens_args *args, int64_t begin, int64_t end,
                    double *exact, double *bound) {
    float acc = 0.0f, weights = 0.0f;
    double sum = 0.0, magnitude = 0.0, all = 0.0;
    *exact = *bound = 0.0;
    if (begin == end)
        return 0.0f;
    if (args->pooling == FOVEA_POOLING_FIRST || args->pooling == FOVEA_POOLING_LAST) {
        acc = x[(args->pooling == FOVEA_POOLING_FIRST ? begin : end - 1) * width];
        *exact = (double)acc;
        return acc;
    }
    float most = x[begin * width];
    for (int64_t i = begin; i < end; i++) {
        const float weight = args->pooling != FOVEA_POOLING_WEIGHTED_MEAN ? 1.0f
                             : args->weights                              ? args->weights[i]
                                                                          : (float)(i - begin + 1);
        acc = acc + weight * x[i * width];
        weights = weights + weight;
        sum += (double)weight * (double)x[i * width];
        magnitude += fabs((double)weight * (double)x[i * width]);
        all += (double)weight;
        if (most < x[i * width] || float_is_nan(x[i * width]))
            most = x[i * width];
    }
    if (args->pooling == FOVEA_POOLING_MAX) {
        *exact = (double)most;
        return most;
    }
    const float divisor = args->pooling == FOVEA_POOLING_MEAN_SQRT_LEN ? sqrtf((float)(end - begin)) : weights;
    const double exact_divisor = args->pooling == FOVEA_POOLING_MEAN_SQRT_LEN ? sqrt((double)(end - begin)) : all;
    if (divisor == 0.0f) /* +0, whatever the channels hold */
        return 0.0f;
    *exact = sum / exact_divisor;
    *bound = 0x1p-24 * (2.0 * (double)(end - begin) + 4.0) * magnitude / exact_divisor;
    return acc / divisor;
}

static void test_pool(const fovea_context *const all[CONTEXTS], rng *r) {
    const int64_t sequences = rng_between(r, 0, 9), width = some_width(r);
    const fovea_dtype x_type = some_type(r), y_type = some_type(r);
    int64_t cu[10] = {0};
    for (int64_t s = 0; s < sequences; s++)
        cu[s + 1] = cu[s] + rng_below(r, 12);
    const int64_t rows = cu[sequences];
    void *typed;
    float *x = numbers(rows * width, r, x_type, &typed), *want = must_alloc(sequences * width + 1, sizeof *want);
    float *weights = must_alloc(rows + 1, sizeof *weights);
    for (int64_t i = 0; i < rows; i++)
        weights[i] = rng_unit(r) + 0.01f;
    for (int64_t s = 1; s < sequences; s += 3) /* whose weights sum up to 0: all are 0, or they come in pairs */
        for (int64_t i = cu[s]; i < cu[s + 1]; i++) {
            const bool minus = (i - cu[s]) % 2, alone = i + 1 == cu[s + 1] && !minus;
            weights[i] = s == 1 || alone ? 0.0f : minus ? -0.3f : 0.3f;
        }
    fovea_pool_tokens_args args;
    fovea_pool_tokens_args_init(&args);
    args.x = rows_of(typed, x_type, rows, width);
    args.begin = cu;
    args.end = cu + 1;
    args.pooling = (fovea_pooling)rng_below(r, 6);
    args.weights = rng_below(r, 2) ? weights : NULL;
    for (int64_t s = 0; s < sequences; s++)
        for (int64_t j = 0; j < width; j++) {
            double exact, bound;
            const float got = want[s * width + j] = pooled(x + j, width, &args, cu[s], cu[s + 1], &exact, &bound);
            test_check(isnan(exact) ? float_is_nan(got) : fabs((double)got - exact) <= bound,
                       "pooling %d gives %g, float64 %.17g", (int)args.pooling, (double)got, exact);
        }
    for (int c = 0; c < CONTEXTS; c++) {
        void *y = must_alloc(sequences * width + 1, sizeof(float));
        args.y = rows_of(y, y_type, sequences, width);
        test_check(fovea_pool_tokens(all[c], &args) == FOVEA_OK, "%s", fovea_error_detail());
        expect(want, sequences * width, y_type, y, "pooling", sequences, width, c);
        free(y);
    }
    free(weights);
    free(want);
    free(x);
    free(typed);
}

static void test_normalize(const fovea_context *const all[CONTEXTS], rng *r) {
    const int64_t rows = rng_between(r, 1, 40), width = some_width(r), n = rows * width;
    const fovea_dtype x_type = some_type(r), y_type = rng_below(r, 2) ? x_type : some_type(r);
    const bool in_place = x_type == y_type && rng_below(r, 2);
    void *typed;
    float *x = numbers(n, r, x_type, &typed), *want = must_alloc(n, sizeof *want);
    for (int64_t j = 0; j < width; j++) { /* zeros; a sum of squares beyond float32; shorter than 1e-12 */
        x[width * (rows > 2) + j] = ldexpf(x[width * (rows > 2) + j], 67);
        x[j] = 0.0f;
        x[n - width + j] *= rows > 1 ? 0x1p-47f : 1.0f;
    }
    convert_elements(n, x, FOVEA_DTYPE_F32, typed, x_type);
    convert_elements(n, typed, x_type, x, FOVEA_DTYPE_F32);
    for (int64_t i = 0; i < rows; i++) {
        float lane[16] = {0}, factor = 1, most = 0, *row = x + i * width, *to = want + i * width;
        double squares = 0;
        for (int64_t j = 0; j < width; j++)
            squares += (double)row[j] * (double)row[j], most = fmaxf(most, fabsf(row[j]));
        if (!(squares < (double)FLT_MAX))
            factor = ldexpf(1, most < FLT_MIN ? 126 : isinf(most) || ilogbf(most) > 126 ? -126 : -ilogbf(most));
        squares *= (double)factor * (double)factor;
        for (int64_t j = 0; j < width; j++)
            row[j] *= factor, lane[j % 16] = lane[j % 16] + row[j] * row[j];
        for (int half = 8; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] = lane[j] + lane[j + half];
        const float root = sqrtf(lane[0]), length = root < 1e-12f ? 1e-12f : root;
        for (int64_t j = 0; j < width; j++) {
            to[j] = row[j] / length;
            const double exact = (double)row[j] / fmax(sqrt(squares), 1e-12),
                         bound = 0x1p-24 * ((double)width / 32 + 6.0) * fabs(exact);
            test_check(!isfinite(squares) || fabs((double)to[j] - exact) <= bound, "%g, not %.17g", (double)to[j],
                       exact);
        }
    }
    for (int c = 0; c < CONTEXTS; c++) {
        void *y = must_alloc(n, sizeof(float));
        memcpy(y, typed, (size_t)(n * fv_dtype_size(x_type)));
        const fovea_tensor to = rows_of(y, y_type, rows, width),
                           from = in_place ? to : rows_of(typed, x_type, rows, width);
        test_check(fovea_normalize_rows(all[c], &from, &to) == FOVEA_OK, "%s", fovea_error_detail());
        expect(want, n, y_type, y, "normalizing", rows, width, c);
        free(y);
    }
    free(want);
    free(x);
    free(typed);
}

/* Heads within tokens become tokens within heads: rows of any strides. */
static void test_layouts(const fovea_context *ctx, rng *r) {
    enum { BATCH = 2, HEADS = 3, TOKENS = 5, WIDTH = 19, ROWS = BATCH * HEADS * TOKENS };
    void *typed;
    float *x = numbers(ROWS * WIDTH, r, FOVEA_DTYPE_F32, &typed), y[ROWS][WIDTH], unit[ROWS][WIDTH];
    const fovea_tensor from = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, BATCH, TOKENS, HEADS, WIDTH),
                       rows = rows_of(x, FOVEA_DTYPE_F32, ROWS, WIDTH),
                       to = rows_of(unit, FOVEA_DTYPE_F32, ROWS, WIDTH);
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    args.x = from;
    args.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, BATCH, HEADS, TOKENS, WIDTH);
    test_check(fovea_normalize_rows(ctx, &rows, &to) == FOVEA_OK, "%s", fovea_error_detail());
    for (int normalizes = 0; normalizes < 2; normalizes++) {
        const fovea_status status = normalizes ? fovea_normalize_rows(ctx, &from, &args.y) : fovea_activate(ctx, &args);
        test_check(status == FOVEA_OK, "%s", fovea_error_detail());
        for (int i = 0; i < ROWS; i++) {
            const int other = (i / (HEADS * TOKENS) * TOKENS + i % TOKENS) * HEADS + i / TOKENS % HEADS;
            test_same(y[i], normalizes ? unit[other] : x + (ptrdiff_t)other * WIDTH, WIDTH, "row %d, normalized: %d", i,
                      normalizes);
        }
    }
    free(x);
    free(typed);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "encoder", NULL);
    case_contexts contexts = contexts_make();
    const fovea_context *const all[CONTEXTS] = {contexts.scalar, contexts.one, contexts.own, contexts.three};
    rng r = rng_stream(test_seed(), "encoder");
    for (int64_t i = test_scaled(CASES); i > 0; i--) {
        test_embedding(all, &r);
        test_activate(all, &r);
        test_pool(all, &r);
        test_normalize(all, &r);
    }
    test_layouts(contexts.one, &r);
    check_refused(contexts.one);
    contexts_free(&contexts);
    return test_end();
}
