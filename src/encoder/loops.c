/* encoder.h: loops. Plain C: the compiler's vectors give the bits of one at a time, as nothing is fused or
 * reordered. */
#include "encoder/encoder.h"

#include <math.h>

void fv_run_add(int64_t n, const float *x, float *sum) {
    for (int64_t i = 0; i < n; i++)
        sum[i] = sum[i] + x[i];
}

void fv_run_add_weighted(int64_t n, float weight, const float *x, float *sum) {
    for (int64_t i = 0; i < n; i++)
        sum[i] = sum[i] + weight * x[i];
}

void fv_run_max(int64_t n, const float *x, float *max) {
    for (int64_t i = 0; i < n; i++)
        max[i] = max[i] >= x[i] || max[i] != max[i] ? max[i] : x[i];
}

static float canonical(float y) { return y == y ? y : NAN; }

void fv_run_finish(int64_t n, const float *x, float factor, float divisor, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = canonical(x[i] * factor / divisor);
}

void fv_run_squares(int64_t n, const float *x, float lanes[FV_LANES]) {
    int64_t i = 0;
    for (; i + FV_LANES <= n; i += FV_LANES)
        for (int j = 0; j < FV_LANES; j++)
            lanes[j] = lanes[j] + x[i + j] * x[i + j];
    for (int j = 0; i + j < n; j++)
        lanes[j] = lanes[j] + x[i + j] * x[i + j];
}
