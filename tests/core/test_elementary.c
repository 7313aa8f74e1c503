/* Logarithm, power, sine and cosine in double (core/elementary.h): against long double, at arguments that ropes have,
 * at random ones, and where reduction is hard. All bits have one hash, on every system, and with flush-to-zero. */
#include "core/core.h"
#include "fp_control.h"
#include "test.h"

#include <float.h>
#include <math.h>

enum { RANDOM = 20000, MULTIPLES = 20000 };

typedef struct totals {
    uint64_t hash;
    double log, pow, sincos; /* the worst errors: in ulp; sincos: in units of 2^-53 */
} totals;

static void take(totals *t, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    t->hash = fnv_u64(t->hash, bits);
}

static double ulps_off(double got, long double exact) {
    int exponent;
    frexpl(exact, &exponent);
    return (double)(fabsl((long double)got - exact) / ldexpl(1.0L, exponent - DBL_MANT_DIG));
}

static void try_log(totals *t, double x) {
    const double got = fv_log(x);
    take(t, got);
    t->log = fmax(t->log, x == 1.0 ? fabs(got) : ulps_off(got, logl((long double)x)));
}

static void try_pow(totals *t, double x, double y) {
    const double got = fv_pow(x, y);
    take(t, got);
    t->pow = fmax(t->pow, ulps_off(got, powl((long double)x, (long double)y)));
}

/* x - n pi/2, where x is less than 2^45: parts of pi/2 whose products with n are exact. sinl() of some systems is fsin,
 * whose own pi has 66 bits. */
static long double reduce(double x, long double n) {
    static const double parts[] = {0x1.921f8p+0,  0x1.aa22p-19,  0x1.68c4p-39,
                                   -0x1.cb3bp-55, -0x1.ccecp-74, 0x1.701cp-92};
    long double r = (long double)x;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        r -= n * (long double)parts[i];
    return r;
}

static void try_sincos(totals *t, double x) {
    double s, c;
    fv_sincos(x, &s, &c);
    take(t, s);
    take(t, c);
    const double n = rint(x / (FV_PI / 2));
    const int quadrant = (int)(int64_t)n & 3;
    const long double r = reduce(x, (long double)n), at[] = {sinl(r), cosl(r), -sinl(r), -cosl(r)};
    const long double sine = at[quadrant], cosine = at[(quadrant + 1) & 3];
    t->sincos =
        fmax(t->sincos, (double)(fmaxl(fabsl((long double)s - sine), fabsl((long double)c - cosine)) * 0x1p53L));
}

static double uniform(rng *r) { return (double)(rng_u64(r) >> 11) * 0x1p-53; }

static totals all(uint64_t seed) {
    totals t = {.hash = FNV_START};
    rng r = rng_stream(seed, "elementary");
    static const double bases[] = {10000, 500000, 1e6, 5e6, 1.0000001, 1e300, 0x1p-1000, 0x1.fffffffffffffp-1};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        for (int pair = 0; pair < 64; pair++)
            try_pow(&t, bases[i], -2.0 * pair / 128);
    for (int i = 0; i < RANDOM; i++) {
        const double near = 1.0 + (uniform(&r) - 0.5) * ldexp(1.0, -i % 50);
        try_log(&t, i % 2 ? near : ldexp(near, (int)rng_between(&r, -1000, 1000)));
        try_log(&t, ldexp(0x1.6a09e667f3bcdp-1 + (i % 9 - 4) * DBL_EPSILON, i % 2000 - 1000));
        try_pow(&t, ldexp(1.0 + uniform(&r), (int)rng_between(&r, -30, 30)), 8.0 * uniform(&r) - 4.0);
        try_sincos(&t, ldexp(uniform(&r), i % 45));
        try_sincos(&t, (double)rng_below(&r, 1 << 24) * fv_pow(10000, -uniform(&r)));
    }
    for (int i = 0; i < MULTIPLES; i++) /* of pi/2, as near as doubles are */
        try_sincos(&t, (double)(i < MULTIPLES / 2 ? i : rng_below(&r, 1 << 24)) * (FV_PI / 2));
    return t;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "elementary", NULL);
    const totals t = all(1);
    test_check(t.hash == UINT64_C(0x9e34d495733e47b2), "results have the hash %016llx", (unsigned long long)t.hash);
    if (LDBL_MANT_DIG > DBL_MANT_DIG)
        test_check(t.log < 0.6 && t.pow < 1.0 && t.sincos < 1.0,
                   "log is %.3f ulp off, pow %.3f; sine or cosine %.3f 2^-53", t.log, t.pow, t.sincos);
    else
        test_skip("accuracy: long double is double here");
    fp_flush(1);
    const uint64_t flushed = all(1).hash;
    fp_flush(0);
    test_check(flushed == t.hash, "flush-to-zero gives other results");
    test_check(fv_log(0.0) == -INFINITY && fv_log(INFINITY) == INFINITY, "log of 0 or of infinity");
    return test_end();
}
