/* Logarithm, power, sine and cosine (elementary.h). The coefficients are quotients of integers below
 * 2^53, which are rounded once. */
#include "core/elementary.h"

#include <math.h>
#include <stdint.h>

#define LOG_2_HIGH 0x1.62e42fefap-1 /* 36 bits: exact times the exponent of any double */
#define LOG_2_LOW 0x1.cf79abc9e3b3ap-40
#define LOG_2_RECIPROCAL 0x1.71547652b82fep+0
#define HALF_PI_HIGH 0x1.921fb54442d18p+0
#define HALF_PI_LOW 0x1.1a62633145c07p-54
#define HALF_PI_RECIPROCAL 0x1.45f306dc9c883p-1

static const double reciprocal_factorial[] = {1.0,
                                              1.0,
                                              1.0 / 2,
                                              1.0 / 6,
                                              1.0 / 24,
                                              1.0 / 120,
                                              1.0 / 720,
                                              1.0 / 5040,
                                              1.0 / 40320,
                                              1.0 / 362880,
                                              1.0 / 3628800,
                                              1.0 / 39916800,
                                              1.0 / 479001600,
                                              1.0 / 6227020800,
                                              1.0 / 87178291200,
                                              1.0 / 1307674368000,
                                              1.0 / 20922789888000,
                                              1.0 / 355687428096000};

/* 1 / least! + x / (least + step)! + ... up to 1 / most!. */
static double series(double x, int least, int step, int most) {
    double y = 0.0;
    for (int i = most; i >= least; i -= step)
        y = y * x + reciprocal_factorial[i];
    return y;
}

/* Returns log(x), and in *low what is missing. */
static double log_of(double x, double *low) {
    int k;
    double m = frexp(x, &k);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2.0;
        k--;
    }
    const double f = m - 1.0, d = m + 1.0, d_low = m - (d - 1.0);
    const double s = f / d, s_low = (fma(-s, d, f) - s * d_low) / d, z = s * s;
    const double a = k * LOG_2_HIGH, sum = a + 2.0 * s;
    double rest = 0.0;
    for (int i = 21; i > 1; i -= 2)
        rest = rest * z + 2.0 / i;
    *low = (a - sum) + 2.0 * s + (k * LOG_2_LOW + (2.0 * s_low + s * z * rest));
    return sum;
}

double fv_log(double x) {
    if (!(x > 0.0 && x < INFINITY))
        return x > 0.0 ? INFINITY : -INFINITY;
    double low;
    const double high = log_of(x, &low);
    return high + low;
}

double fv_pow(double x, double y) {
    double low;
    const double high = log_of(x, &low), product = y * high, k = rint(product * LOG_2_RECIPROCAL);
    const double first = product - k * LOG_2_HIGH, second = fma(y, high, -product) + y * low - k * LOG_2_LOW;
    const double r = first + second, r_low = (first - r) + second, sum = 1.0 + r;
    return ldexp(sum + (r - (sum - 1.0) + (r_low + r * r * series(r, 2, 1, 13))), (int)k);
}

void fv_sincos(double x, double *sine, double *cosine) {
    const double n = rint(x * HALF_PI_RECIPROCAL), first = fma(-n, HALF_PI_HIGH, x);
    const double r = fma(-n, HALF_PI_LOW, first), low = fma(-n, HALF_PI_LOW, first - r);
    const double z = -r * r, rest = 1.0 + 0.5 * z;
    const double s = r + (r * z * series(z, 3, 2, 17) + low * rest);
    const double c = rest + ((1.0 - rest + 0.5 * z) + (z * z * series(z, 4, 2, 16) - r * low));
    const int64_t quarter = (int64_t)n & 3;
    *sine = (quarter & 1 ? c : s) * (quarter & 2 ? -1.0 : 1.0);
    *cosine = (quarter & 1 ? s : c) * ((quarter + 1) & 2 ? -1.0 : 1.0);
}
