/* Fovea: functions of plain arrays. Part of fovea.h. */
#ifndef FOVEA_ARRAYS_H
#define FOVEA_ARRAYS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = exp(x[i]) for i < n. Normal results are at most 1 ulp off. Monotonic; exp(0) = 1. Above 88.72283 (the
 * logarithm of the largest float) the result is +inf. Below -87.33654, where exact results are subnormal, it is +0. NaN
 * gives 0x7fc00000. The bits are the same on every tier. For x <= 0 they are those of the exp in softmax.
 *
 * x and y have n >= 0 floats (FOVEA_ERROR_SHAPE), and may be NULL if n is 0. y may be x, but must not overlap it
 * otherwise (FOVEA_ERROR_ALIAS). Runs on the calling thread, on the best tier of a default context. The first call
 * creates that context, which reads the environment (context.h). It is kept for the life of the process, as for
 * fovea_sdpa_f32(). Thread-safe. */
FOVEA_API fovea_status fovea_exp_f32(int64_t n, const float *x, float *y);

/* to[i] = from[i] for i < n, in another element type. Both types are FOVEA_DTYPE_F32, _BF16 or _F16 (otherwise
 * FOVEA_ERROR_DTYPE).
 *   - From 16 bits to float32 this is exact. If both types are the same, bits are copied.
 *   - Everything else rounds once, to nearest, ties to even, whatever the caller's rounding mode. Subnormal numbers are
 *     kept, whatever the flush-to-zero setting. Numbers that are too large become infinite. A NaN becomes quiet and
 *     keeps the top bits of its payload.
 *   - The bits are the same on every tier.
 *
 * from and to have n >= 0 elements (FOVEA_ERROR_SHAPE), and may be NULL if n is 0. They must not overlap
 * (FOVEA_ERROR_ALIAS), but to may be from if both types are the same. Runs on the calling thread, like fovea_exp_f32().
 * Thread-safe. */
FOVEA_API fovea_status fovea_convert(int64_t n, const void *from, fovea_dtype from_dtype, void *to,
                                     fovea_dtype to_dtype);

#ifdef __cplusplus
}
#endif
#endif
