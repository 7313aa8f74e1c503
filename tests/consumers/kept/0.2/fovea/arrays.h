/* Fovea: functions of plain arrays. Part of fovea.h. */
#ifndef FOVEA_ARRAYS_H
#define FOVEA_ARRAYS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = exp(x[i]) for i < n. At most 1 ulp from exact where the result is a normal number; monotonic; exp(0) = 1. +inf above
 * 88.72283 (the logarithm of the greatest float); exactly +0 below -87.33654, where exact results are subnormal; NaN gives
 * 0x7fc00000. The same bits on every tier: for x <= 0 they are those of the exp in softmax.
 *
 * n >= 0 (negative: FOVEA_ERROR_SHAPE); n floats each, not NULL unless n is 0; y may be x, but must not overlap it otherwise
 * (FOVEA_ERROR_ALIAS). Runs on the calling thread, on the best tier of a default context, which is made at the first call and
 * kept for the life of the process, as that of fovea_sdpa_f32() (FOVEA_ISA is read then). After an error y is as it was.
 * Thread-safe. */
FOVEA_API fovea_status fovea_exp_f32(int64_t n, const float *x, float *y);

#ifdef __cplusplus
}
#endif
#endif
