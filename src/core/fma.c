/* fma() and fmaf() where those of the C library round twice, as MinGW-w64's, which compute in the x87 unit.
 *
 * A sum that is inexact is rounded to odd first: its last bit is set, after rounding towards zero. What is rounded
 * again with at least two bits less is then as if it had been rounded once (S. Boldo, G. Melquiond, "Emulation of a FMA
 * and correctly rounded sums", IEEE Transactions on Computers 57, 2008). */
#include "core/fma.h"

#include <stdint.h>
#include <string.h>

/* a + b, as far as it is known: sum, and what is missing. */
typedef struct parts {
    double sum, rest;
} parts;

/* Without error where rounding is to nearest; else rest has the right sign. */
static parts add(double a, double b) {
    const double sum = a + b;
    const int larger = (a < 0.0 ? -a : a) >= (b < 0.0 ? -b : b);
    return (parts){sum, larger ? b - (sum - a) : a - (sum - b)};
}

static double round_to_odd(parts x) {
    uint64_t bits;
    if (!(x.rest < 0.0 || x.rest > 0.0))
        return x.sum;
    memcpy(&bits, &x.sum, sizeof bits);
    if ((x.rest < 0.0) == (x.sum > 0.0)) /* the sum is farther from zero than exact */
        bits--;
    bits |= 1;
    memcpy(&x.sum, &bits, sizeof bits);
    return x.sum;
}

/* The product is exact in double. */
float fv_fmaf(float a, float b, float c) { return (float)round_to_odd(add((double)a * (double)b, (double)c)); }

/* a's upper 26 bits. */
static double upper(double a) {
    const double scaled = a * 0x8000001p0;
    return scaled - (scaled - a);
}

double fv_fma(double a, double b, double c) {
    const double product = a * b, a_high = upper(a), b_high = upper(b), a_low = a - a_high, b_low = b - b_high;
    const double rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
    const parts low = add(c, rest), high = add(product, low.sum);
    return high.sum + round_to_odd(add(low.rest, high.rest));
}
