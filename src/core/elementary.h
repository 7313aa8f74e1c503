/* Elementary functions in double, whose bits no system library decides: +, -, *, / and what is exact or rounded
 * correctly everywhere (fma, rint, frexp, ldexp), in a fixed order. The caller's mode must round to nearest and flush
 * nothing (fv_float_plain()).
 *
 *   log     x = 2^k m, m from sqrt(1/2) to sqrt(2); log(m) = 2 atanh(s) = 2 s + s (2/3 s^2 + ... + 2/21 s^20) with
 *           s = (m - 1) / (m + 1) (the argument reduction of fdlibm, e_log.c). s has a low part, and so has the sum
 *   pow     exp(y log(x)): y times both parts of log(x), minus k log(2); then 1 + r + r^2 / 2! + ... + r^13 / 13!
 *   sincos  x = n pi/2 + r by pi/2 in two doubles (Cody and Waite, "Software Manual for the Elementary Functions",
 *           1980), r in two parts; then both series of Taylor, up to r^17
 *
 * Each is less than 1 ulp of double from exact, a sine near a multiple of pi 2^-53: test_elementary.c. */
#ifndef FV_ELEMENTARY_H
#define FV_ELEMENTARY_H

#define FV_PI 3.14159265358979323846

double fv_log(double x); /* x > 0 and finite; infinity and -infinity for infinity and 0 */

/* x > 0 and finite, |y log(x)| < 2^20. */
double fv_pow(double x, double y);

/* |x| <= 2^44. */
void fv_sincos(double x, double *sine, double *cosine);

#endif
