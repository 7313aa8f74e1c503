/* fma() and fmaf() that round once, whatever the C library does. */
#ifndef FV_FMA_H
#define FV_FMA_H

#include <stdbool.h>

/* Every rounding mode; NaN, infinities and what is subnormal included. */
float fv_fmaf(float a, float b, float c);

/* Rounding to nearest; operands, product and sum are 0 or of magnitudes from 2^-900 to 2^900. */
double fv_fma(double a, double b, double c);

/* Do fma() and fmaf(), as the library calls them, round once? By hard cases. */
bool fv_fma_rounds_once(void);

#endif
