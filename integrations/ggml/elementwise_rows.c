/* NORM, RMS_NORM, L2_NORM, SUM_ROWS, SOFT_MAX (elementwise.h): fovea_norm_layer(), fovea_norm_rms(), fovea_exp_f32(),
 * and sums in the order of sum_of(). */
#include "elementwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline float term(float x, bool squared) { return squared ? x * x : x; }

/* Sum of x, or of squares: of 16 partial sums, of elements j, j + 16, ..., as a tree. */
static inline float sum_of(int64_t n, const float *x, bool squared) {
    enum { LANES = 16 };
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += term(x[i + j], squared);
    for (int j = 0; i + j < n; j++)
        lane[j] += term(x[i + j], squared);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* --------------------------------------------------------------------------------------------------------- norms -- */

bool fg_norm_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0];
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(x, FOVEA_DTYPE_F32) && fg_is_strided(x) &&
           fg_is_strided(op) && !memcmp(op->ne, x->ne, sizeof op->ne) && fg_parameter(op, 0) >= 0.0f;
}

typedef fovea_status norm_function(const fovea_context *ctx, const fovea_norm_args *args, void *workspace, size_t size);

static enum ggml_status norm(fg_backend *backend, struct ggml_tensor *op, norm_function *function) {
    const fg_team *team = fg_backend_team(backend);
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = fg_tensor(op->src[0]);
    args.y = fg_tensor(op);
    args.eps = fg_parameter(op, 0);
    return team ? fg_status(function(team->context, &args, NULL, 0), fg_ggml.op_name(op->op)) : GGML_STATUS_FAILED;
}

enum ggml_status fg_norm_compute(fg_backend *backend, struct ggml_tensor *op) {
    return norm(backend, op, fovea_norm_layer);
}

enum ggml_status fg_rms_norm_compute(fg_backend *backend, struct ggml_tensor *op) {
    return norm(backend, op, fovea_norm_rms);
}

static bool l2_norm_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const float eps = fg_parameter(op, 0);
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        const float factor = 1.0f / fmaxf(sqrtf(sum_of(op->ne[0], x, true)), eps);
        for (int64_t i = 0; i < op->ne[0]; i++)
            y[i] = x[i] * factor;
    }
    return true;
}

enum ggml_status fg_l2_norm_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 3 * op->ne[0] * (int64_t)sizeof(float), l2_norm_rows);
}

bool fg_sum_rows_serves(const struct ggml_tensor *op) {
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(op->src[0], FOVEA_DTYPE_F32) && op->ne[0] == 1 &&
           !memcmp(op->ne + 1, op->src[0]->ne + 1, 3 * sizeof op->ne[0]);
}

static bool sum_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    for (int64_t r = first; r < end; r++)
        *(float *)(void *)fg_row(op, r) =
            sum_of(op->src[0]->ne[0], (const float *)(const void *)fg_row(op->src[0], r), false);
    return true;
}

enum ggml_status fg_sum_rows_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), op->src[0]->ne[0] * (int64_t)sizeof(float), sum_rows);
}

/* ------------------------------------------------------------------------------------------------------- softmax -- */

bool fg_soft_max_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0], *mask = op->src[1], *sinks = op->src[2];
    if (mask && (!(fg_is_plain(mask, FOVEA_DTYPE_F32) || fg_is_plain(mask, FOVEA_DTYPE_F16)) || mask->ne[1] < x->ne[1]))
        return false;
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(x, FOVEA_DTYPE_F32) &&
           (!sinks || fg_is_plain(sinks, FOVEA_DTYPE_F32)) && !memcmp(op->ne, x->ne, sizeof op->ne);
}

/* ALiBi's slope of a head, as ggml computes it. */
static float slope_of(float max_bias, int64_t head, int64_t heads) {
    if (max_bias <= 0.0f)
        return 1.0f;
    const int64_t power = (int64_t)1 << (int)floor(log2((double)heads));
    const double m = head < power ? -max_bias / (double)power : -max_bias / 2.0 / (double)power;
    return (float)exp2(m * (double)(head < power ? head + 1 : 2 * (head - power) + 1));
}

static float exponential(float x) {
    float y;
    fovea_exp_f32(1, &x, &y);
    return y;
}

/* x * scale + slope * mask, mask NULL: 0. y may be x, or the mask's memory. */
static void scores(const float *x, float scale, const fg_type *type, const char *mask, int64_t n, float slope,
                   float *y) {
    enum { PIECE = 256 };
    float m[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        if (mask)
            fovea_convert(count, mask + i * type->bytes, type->dtype, m, FOVEA_DTYPE_F32);
        for (int64_t j = 0; j < count; j++) {
            y[i + j] = x[i + j] * scale;
            if (mask)
                y[i + j] += slope * m[j];
        }
    }
}

static bool soft_max_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const struct ggml_tensor *mask = op->src[1];
    const float scale = fg_parameter(op, 0), max_bias = fg_parameter(op, 1);
    const int64_t n = op->ne[0];
    for (int64_t r = first; r < end; r++) {
        const int64_t i1 = r % op->ne[1], i2 = r / op->ne[1] % op->ne[2], i3 = r / op->ne[1] / op->ne[2];
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        const char *row = mask ? (const char *)mask->data + (size_t)i1 * mask->nb[1] +
                                     (size_t)(i2 % mask->ne[2]) * mask->nb[2] + (size_t)(i3 % mask->ne[3]) * mask->nb[3]
                               : NULL;
        scores(x, scale, mask ? fg_type_of(mask->type) : NULL, row, n, row ? slope_of(max_bias, i2, op->ne[2]) : 0.0f,
               y);
        const float *sink = op->src[2] ? (const float *)op->src[2]->data + i2 : NULL;
        float max = sink ? *sink : -INFINITY;
        for (int64_t i = 0; i < n; i++)
            max = y[i] > max ? y[i] : max;
        for (int64_t i = 0; i < n; i++)
            y[i] -= max;
        fovea_exp_f32(n, y, y);
        const float sum = sum_of(n, y, false) + (sink ? exponential(*sink - max) : 0.0f), factor = 1.0f / sum;
        for (int64_t i = 0; i < n; i++)
            y[i] *= factor;
    }
    return true;
}

enum ggml_status fg_soft_max_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 6 * op->ne[0] * (int64_t)sizeof(float), soft_max_rows);
}
