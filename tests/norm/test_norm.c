/* fovea_norm_rms and fovea_norm_layer: the bits of the formulas of kernels.h on every tier and with every number of
 * threads, in every layout and type, in place too; and what they refuse. That the formulas are right in float64:
 * fovea-check. */
#include "attention_case.h"
#include "guard.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 150, TYPES = 3 };

static const fovea_dtype types[TYPES] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

typedef fovea_status norm_fn(const fovea_context *ctx, const fovea_norm_args *args, void *workspace, size_t size);
static norm_fn *const norms[] = {fovea_norm_rms, fovea_norm_layer};

static float lanes(const float *x, int64_t n, float mean, bool squares) {
    float lane[16] = {0};
    for (int64_t j = 0; j < n; j++)
        lane[j % 16] = squares ? fmaf(x[j] - mean, x[j] - mean, lane[j % 16]) : lane[j % 16] + x[j];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* A row by kernels.h. */
static void literal(const float *given, int64_t n, bool centre, const float *weight, const float *bias, float eps,
                    float *y) {
    float *x = must_alloc(n, sizeof *x), most = sqrtf(eps), mean, squares;
    memcpy(x, given, (size_t)n * sizeof *x);
    for (int turn = 0; turn < 2; turn++) {
        mean = centre ? lanes(x, n, 0.0f, false) / (float)n : 0.0f;
        squares = lanes(x, n, mean, true);
        const float variance = squares / (float)n + eps;
        if (turn || (squares < FLT_MAX && variance >= 0x1p-96f && variance < FLT_MAX))
            break;
        for (int64_t j = 0; j < n; j++)
            most = fmaxf(most, fabsf(x[j]));
        int e;
        frexpf(most, &e);
        e = isinf(most) || e - 1 > 126 ? 126 : e - 1 < -126 || most == 0 ? -126 : e - 1;
        for (int64_t j = 0; j < n; j++)
            x[j] = ldexpf(x[j], -e);
        eps = eps > 0 ? fmaxf(ldexpf(eps, -2 * e), FLT_MIN) : 0;
    }
    const float r = 1.0f / sqrtf(squares / (float)n + eps);
    for (int64_t j = 0; j < n; j++) {
        const float t = (x[j] - mean) * r;
        y[j] = weight && bias ? fmaf(t, weight[j], bias[j]) : weight ? t * weight[j] : bias ? t + bias[j] : t;
        y[j] = isnan(y[j]) ? NAN : y[j];
    }
    free(x);
}

static float *normal(int64_t n, rng *r) {
    float *x = must_alloc(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = 2.0f * rng_normal(r) + 0.5f;
    return x;
}

static void *typed(int64_t n, float *floats, fovea_dtype dtype) {
    void *to = must_alloc(n, sizeof(float));
    convert_elements(n, floats, FOVEA_DTYPE_F32, to, dtype);
    convert_elements(n, to, dtype, floats, FOVEA_DTYPE_F32);
    return to;
}

static fovea_tensor tensor(bool bthd, void *data, fovea_dtype dtype, const int64_t shape[4]) {
    return bthd ? fovea_tensor_bthd(data, dtype, shape[0], shape[2], shape[1], shape[3])
                : fovea_tensor_bhtd(data, dtype, shape[0], shape[1], shape[2], shape[3]);
}

static void test_case(const case_contexts *contexts, rng *r) {
    const int64_t shape[4] = {rng_between(r, 1, 3), rng_between(r, 1, 4), rng_between(r, 1, 30),
                              rng_below(r, 6) == 0 ? rng_between(r, 500, 5000) : rng_between(r, 1, 100)};
    const int64_t n = shape[3], rows = shape[0] * shape[1] * shape[2];
    const bool bthd = rng_below(r, 2), centre = rng_below(r, 2), in_place = rng_below(r, 3) == 0;
    const fovea_dtype x_type = types[rng_below(r, TYPES)], y_type = in_place ? x_type : types[rng_below(r, TYPES)],
                      weight_type = types[rng_below(r, TYPES)], bias_type = types[rng_below(r, TYPES)];
    const int far = rng_below(r, 4) ? 0 : (int)rng_between(r, -149, 126); /* sums of squares may leave float32 */
    float *x = normal(rows * n, r), *weight = normal(n, r), *bias = normal(n, r);
    for (int64_t i = 0; i < rows * n; i++)
        x[i] = ldexpf(x[i], far);
    void *x_typed = typed(rows * n, x, x_type), *weight_typed = typed(n, weight, weight_type),
         *bias_typed = typed(n, bias, bias_type);
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.weight = rng_below(r, 2) ? weight_typed : NULL;
    args.bias = rng_below(r, 2) ? bias_typed : NULL;
    args.weight_dtype = weight_type;
    args.bias_dtype = bias_type;
    args.eps = far && rng_below(r, 2)       ? 0
               : far < 0 && rng_below(r, 2) ? ldexp(1, 2 * far)
               : rng_below(r, 2)            ? 1e-6
                                            : args.eps;
    float *floats = must_alloc(rows * n, sizeof *floats);
    for (int64_t i = 0; i < rows; i++)
        literal(x + i * n, n, centre, args.weight ? weight : NULL, args.bias ? bias : NULL, (float)args.eps,
                floats + i * n);
    const int64_t bytes = rows * n * fv_dtype_size(y_type);
    void *want = must_alloc(rows * n, sizeof(float));
    convert_elements(rows * n, floats, FOVEA_DTYPE_F32, want, y_type);
    const fovea_context *const all[] = {contexts->scalar, contexts->one, contexts->own, contexts->three};
    for (int i = 0; i < 4; i++) {
        char *y = must_alloc(bytes + 1, 1);
        memset(y, 0x5a, (size_t)bytes + 1);
        if (in_place)
            memcpy(y, x_typed, (size_t)bytes);
        args.x = tensor(bthd, in_place ? (void *)y : x_typed, x_type, shape);
        args.y = tensor(bthd, y, y_type, shape);
        guard *workspace = guard_alloc("workspace", fovea_norm_workspace_size(all[i], &args), GUARD_END);
        test_check(norms[centre](all[i], &args, i % 2 ? workspace->data : NULL, i % 2 ? workspace->size : 0) ==
                       FOVEA_OK,
                   "%s", fovea_error_detail());
        test_check(memcmp(y, want, (size_t)bytes) == 0 && y[bytes] == 0x5a,
                   "%s of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 ", types %d %d, context %d: other bits",
                   centre ? "layer norm" : "RMS norm", shape[0], shape[1], shape[2], n, (int)x_type, (int)y_type, i);
        free(y);
        guard_free(workspace);
    }
    free(want);
    free(floats);
    free(x_typed);
    free(weight_typed);
    free(bias_typed);
    free(x);
    free(weight);
    free(bias);
}

/* Rows with gaps between them are read and written where they are. */
static void test_gaps(const fovea_context *ctx) {
    enum { N = 7, GAP = 3, ROWS = 4 };
    float x[ROWS * (N + GAP)], y[ROWS * (N + GAP)], want[N];
    for (int i = 0; i < ROWS * (N + GAP); i++) {
        x[i] = i % (N + GAP) < N ? (float)(i * i % 11) : NAN;
        y[i] = -1.0f;
    }
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, ROWS, N);
    args.x.stride[2] = N + GAP;
    args.y = args.x;
    args.y.data = y;
    test_check(fovea_norm_rms(ctx, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    for (int i = 0; i < ROWS; i++) {
        literal(x + i * (N + GAP), N, false, NULL, NULL, 1e-5f, want);
        test_same(y + i * (N + GAP), want, N, "row %d of rows with gaps", i);
        for (int j = N; j < N + GAP; j++)
            test_check(y[i * (N + GAP) + j] == -1.0f, "the gap behind row %d is written", i);
    }
}

/* Rows whose squares leave float32 have the results of rows of ordinary size. */
static void test_far(const case_contexts *contexts) {
    static const struct {
        float x[2], eps, rms[2], layer[2];
    } rows[] = {
        {{3, 4}, 0, {0.84852814f, 1.1313709f}, {-1, 1}},
        {{3e19f, 4e19f}, 1e-5f, {0.84852814f, 1.1313709f}, {-1, 1}},
        {{3e-25f, -4e-25f}, 0, {0.84852814f, -1.1313709f}, {1, -1}},
        {{3e-25f, -4e-25f}, 1e-5f, {9.4868330e-23f, -1.2649111e-22f}, {1.1067972e-22f, -1.1067972e-22f}},
        {{3e38f, -3e38f}, 0, {1, -1}, {1, -1}},
        {{3e38f, 3e38f}, 1e-5f, {1, 1}, {0, 0}},
        {{3e38f, 1e-5f}, 0, {1.41421356f, 4.7140452e-44f}, {1, -1}},
        {{1e-45f, 0}, 0, {1.41421356f, 0}, {1, -1}},
        {{1.2e19f, -1.2e19f}, 3e38f, {0.56949478f, -0.56949478f}, {0.56949478f, -0.56949478f}},
        {{1e-30f, 0}, 1e-38f, {1e-11f, 0}, {5e-12f, -5e-12f}},
        {{0, 0}, 1e-30f, {0, 0}, {0, 0}},
        {{0, 0}, 0, {NAN, NAN}, {NAN, NAN}},
        {{INFINITY, 2}, 0, {NAN, 0}, {NAN, NAN}},
        {{NAN, 3e38f}, 0, {NAN, NAN}, {NAN, NAN}},
    };
    const fovea_context *const all[] = {contexts->scalar, contexts->one};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int kind = 0; kind < 4; kind++) {
            float y[2];
            fovea_norm_args args;
            fovea_norm_args_init(&args);
            args.x = fovea_tensor_bhtd((void *)(uintptr_t)rows[i].x, FOVEA_DTYPE_F32, 1, 1, 1, 2);
            args.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, 1, 2);
            args.eps = (double)rows[i].eps;
            test_check(norms[kind / 2](all[kind % 2], &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
            for (int j = 0; j < 2; j++) {
                const float want = kind / 2 ? rows[i].layer[j] : rows[i].rms[j];
                test_check(isnan(want) ? isnan(y[j]) : fabsf(y[j] - want) <= 4e-7f * fabsf(want) + 2e-45f,
                           "%s of (%g, %g), eps %g: element %d is %g, not %g", kind / 2 ? "layer norm" : "RMS norm",
                           (double)rows[i].x[0], (double)rows[i].x[1], args.eps, j, (double)y[j], (double)want);
            }
        }
}

static void test_refused(const fovea_context *ctx) {
    float x[24] = {0}, y[24] = {0};
    fovea_norm_args good, args;
    void *workspace = NULL;
    size_t bytes = 0;
    fovea_norm_args_init(&good);
    good.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 2, 3, 4);
    good.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 2, 3, 4);
    check_status("no context", fovea_norm_rms(NULL, &good, NULL, 0), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no arguments", fovea_norm_layer(ctx, NULL, NULL, 0), FOVEA_ERROR_NULL, "args is NULL");
#define REFUSED(status, words, change)                                                                                 \
    do {                                                                                                               \
        args = good;                                                                                                   \
        change;                                                                                                        \
        check_status(#change, fovea_norm_rms(ctx, &args, workspace, bytes), status, words);                            \
    } while (0)
    REFUSED(FOVEA_ERROR_NULL, "x is NULL", args.x.data = NULL);
    REFUSED(FOVEA_ERROR_NULL, "y is NULL", args.y.data = NULL);
    REFUSED(FOVEA_ERROR_SHAPE, "y", args.y.shape[2] = 2);
    REFUSED(FOVEA_ERROR_SHAPE, "x has a size of 0", args.x.shape[3] = 0);
    REFUSED(FOVEA_ERROR_SHAPE, "x has a size of -1", args.x.shape[0] = -1);
    REFUSED(FOVEA_ERROR_OVERFLOW, "too large", args.x.shape[0] = INT64_MAX / 2);
    REFUSED(FOVEA_ERROR_DTYPE, "x is FOVEA_DTYPE_I64", args.x.dtype = FOVEA_DTYPE_I64);
    REFUSED(FOVEA_ERROR_DTYPE, "weight is ", (args.weight = x, args.weight_dtype = FOVEA_DTYPE_BOOL));
    REFUSED(FOVEA_ERROR_ALIAS, "y overlaps x", args.y.data = x + 4);
    REFUSED(FOVEA_ERROR_ALIAS, "y overlaps bias", args.bias = y + 20);
    REFUSED(FOVEA_ERROR_STRIDE, "share memory", args.y.stride[2] = 2);
    REFUSED(FOVEA_ERROR_ARGUMENT, "eps is -1", args.eps = -1);
    REFUSED(FOVEA_ERROR_ARGUMENT, "eps is nan", args.eps = NAN);
    REFUSED(FOVEA_ERROR_ARGUMENT, "eps is inf", args.eps = INFINITY);
    REFUSED(FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    REFUSED(FOVEA_ERROR_ALIAS, "x overlaps the workspace", (workspace = x + 23, bytes = 4));
    REFUSED(FOVEA_ERROR_ALIAS, "y overlaps the workspace", (workspace = y + 23, bytes = 4));
    float weight[4] = {0};
    good.weight = good.bias = weight;
    REFUSED(FOVEA_ERROR_ALIAS, "weight overlaps the workspace", (workspace = weight, bytes = 1));
    args = good;
    test_check(fovea_norm_workspace_size(ctx, &args) == 0, "floats need a workspace");
    args.bias_dtype = FOVEA_DTYPE_F16;
    size_t size = fovea_norm_workspace_size(ctx, &args);
    test_check(size > 0, "a bias of 16 bits needs no workspace");
    args.y.dtype = FOVEA_DTYPE_F16;
    test_check(fovea_norm_workspace_size(ctx, &args) > size, "16 bits need no workspace");
    size = fovea_norm_workspace_size(ctx, &args);
    good = args;
    char room[1];
    REFUSED(FOVEA_ERROR_WORKSPACE, "workspace has 1 bytes", (workspace = room, bytes = 1));
    test_check(fovea_norm_workspace_size(NULL, &args) == 0 && fovea_norm_workspace_size(ctx, NULL) == 0, "no norm");
    args.x.dtype = (fovea_dtype)77;
    args.x.shape[3] = -1;
    test_check(fovea_norm_workspace_size(ctx, &args) == 0, "a wrong norm needs a workspace");
#undef REFUSED
    fovea_norm_args_init(&args);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 2, 3, 4);
    args.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 2, 3, 4);
    args.x.shape[2] = args.y.shape[2] = 0;
    args.x.data = args.y.data = NULL;
    test_check(fovea_norm_rms(ctx, &args, NULL, 0) == FOVEA_OK, "no rows: %s", fovea_error_detail());
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "norm", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "norm");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&contexts, &r);
    test_gaps(contexts.one);
    test_far(&contexts);
    test_refused(contexts.one);
    contexts_free(&contexts);
    return test_end();
}
