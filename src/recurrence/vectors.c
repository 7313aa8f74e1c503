/* Loops over vectors of gates, keys and queries: plain C, whose vectors give the bits of one at a time, as nothing is
 * fused. */
#include "recurrence/recurrence.h"

#include <math.h>

void fv_vector_normalize(int64_t n, const float *x, fovea_l2 norm, float eps, float *y) {
    float lanes[FV_LANES] = {0};
    int64_t i = 0;
    for (; i + FV_LANES <= n; i += FV_LANES)
        for (int j = 0; j < FV_LANES; j++)
            lanes[j] += x[i + j] * x[i + j];
    for (int j = 0; i + j < n; j++)
        lanes[j] += x[i + j] * x[i + j];
    for (int half = FV_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    const float root = sqrtf(lanes[0]);
    const float factor = 1.0F / (norm == FOVEA_L2_RSQRT ? sqrtf(lanes[0] + eps) : root < eps ? eps : root);
    for (i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

void fv_vector_limit(int64_t n, float low, float high, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

void fv_vector_scale(int64_t n, float factor, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

void fv_vector_multiply(int64_t n, const float *x, const float *y, float *product) {
    for (int64_t i = 0; i < n; i++)
        product[i] = x[i] * y[i];
}

void fv_vector_fill(int64_t n, float x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x;
}

void fv_vector_canonical(int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? NAN : x[i];
}
