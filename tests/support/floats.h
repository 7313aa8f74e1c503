/* Floats as bits: poison, comparison, distance.
 *
 * "Same" in these tests means the same bits, so that -0 differs from +0 and a NaN equals only itself.
 */
#ifndef FOVEA_TESTS_FLOATS_H
#define FOVEA_TESTS_FLOATS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { CANONICAL_NAN = 0x7fc00000 }; /* the only NaN that outputs of the library hold */

static inline uint32_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Without arithmetic, so that signalling NaN and -ffast-math callers are no matter. */
static inline bool float_is_nan(float f) { return (float_bits(f) & 0x7fffffff) > 0x7f800000; }

/* The NaN that memory is poisoned with: quiet, negative, with a payload nobody computes. */
static inline float poison(void) { return bits_float(0xffe5e5e5); }

static inline void poison_fill(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = poison();
}

/* The first of n elements whose bits differ, or -1. */
static inline int64_t first_difference(const float *got, const float *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (float_bits(got[i]) != float_bits(want[i]))
            return i;
    return -1;
}

/* Places of a float on the line of all floats, in steps of one float: -1 for the float below zero (both zeros are 0).
 */
static inline int64_t float_ordinal(float f) {
    uint32_t bits = float_bits(f);
    return bits & 0x80000000 ? -(int64_t)(bits & 0x7fffffff) : (int64_t)bits;
}

/* One unit in the last place of a float near exact, in double; the smallest normal's below the normal range. */
static inline double float_ulp(double exact) {
    int exponent;
    (void)frexp(exact, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* How far got is from exact, in units in the last place of a float. */
static inline double ulp_error(float got, double exact) { return fabs((double)got - exact) / float_ulp(exact); }

/* Relative rounding error of a float operation: half an epsilon. */
static inline double float_eps(void) { return 0x1p-24; }

#endif
