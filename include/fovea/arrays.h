/* Fovea: functions of plain arrays. Part of fovea.h. */
#ifndef FOVEA_ARRAYS_H
#define FOVEA_ARRAYS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = exp(x[i]) for i < n. Where the result is a normal number, it is at most 1 ulp off. Monotonic; exp(0) = 1. Above
 * 88.72283 (the logarithm of the largest float) the result is +inf; below -87.33654, where exact results are subnormal, it
 * is +0; NaN gives 0x7fc00000. The same bits on every tier; for x <= 0, those of the exp in softmax.
 *
 * n >= 0 (negative: FOVEA_ERROR_SHAPE). x and y have n floats, and may be NULL only if n is 0. y may be x, but must not
 * overlap it otherwise (FOVEA_ERROR_ALIAS). Runs on the calling thread, on the best tier of a default context. That context
 * is created at the first call, which reads FOVEA_ISA, and kept for the life of the process, as for fovea_sdpa_f32(). After
 * an error y is unchanged. Thread-safe. */
FOVEA_API fovea_status fovea_exp_f32(int64_t n, const float *x, float *y);

#ifdef __cplusplus
}
#endif
#endif
