/* Fovea: functions of plain arrays. Part of fovea.h. */
#ifndef FOVEA_ARRAYS_H
#define FOVEA_ARRAYS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = exp(x[i]) for i < n. Where the result is a normal number, it is at most 1 ulp off. Monotonic; exp(0) = 1.
 * Above 88.72283 (the logarithm of the largest float) the result is +inf; below -87.33654, where exact results are
 * subnormal, it is +0; NaN gives 0x7fc00000. The same bits on every tier; for x <= 0, those of the exp in softmax.
 *
 * n >= 0 (negative: FOVEA_ERROR_SHAPE). x and y have n floats, and may be NULL only if n is 0. y may be x, but must not
 * overlap it otherwise (FOVEA_ERROR_ALIAS). Runs on the calling thread, on the best tier of a default context. That
 * context is created at the first call, which reads FOVEA_ISA, and kept for the life of the process, as for
 * fovea_sdpa_f32(). After an error y is unchanged. Thread-safe. */
FOVEA_API fovea_status fovea_exp_f32(int64_t n, const float *x, float *y);

/* to[i] = from[i] for i < n, in another element type: FOVEA_DTYPE_F32, _BF16 or _F16, both of them. From 16 bits to
 * float32 this is exact. Else it rounds to nearest, ties to even, whatever the caller's rounding mode; subnormal
 * numbers are kept, whatever the flush bits; what is too large becomes infinite; a NaN becomes quiet and keeps the top
 * bits of its payload. Where both types are the same, bits are copied. From one type of 16 bits to the other it rounds
 * once.
 *
 * n >= 0 (negative: FOVEA_ERROR_SHAPE). from and to have n elements, and may be NULL only if n is 0. They must not
 * overlap (FOVEA_ERROR_ALIAS), but to may be from where both types are the same. Another type: FOVEA_ERROR_DTYPE. Runs
 * on the calling thread, as fovea_exp_f32() does. The same bits on every tier. After an error to is unchanged.
 * Thread-safe. */
FOVEA_API fovea_status fovea_convert(int64_t n, const void *from, fovea_dtype from_dtype, void *to,
                                     fovea_dtype to_dtype);

#ifdef __cplusplus
}
#endif
#endif
