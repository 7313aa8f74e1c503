/* A power of two for rows whose sum of squares leaves float32 (kernels.h has what is computed with it). Not a kernel:
 * such rows are rare. */
#ifndef FV_NEAR_ONE_H
#define FV_NEAR_ONE_H

#include <float.h>
#include <stdint.h>

/* The largest of `most` and the magnitudes of x, NaN left out. */
float fv_largest(int64_t n, const float *x, float most);

/* 2^-e: a number times it is from 1 to 4, or below where e would be less than -126. */
float fv_near_one(float number);

#endif
