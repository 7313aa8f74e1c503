/* v_exp: e^x for x <= 0, the one exp of softmax, merges, weights and the array kernel.
 *
 * x = n ln(2) + r with n an integer and |r| <= ln(2)/2; e^x = 2^n + 2^n e with e = r + r^2 q(r). Adding FV_MAGIC to x
 * log2(e) rounds it to n and leaves n + 127 in the low bits, which shifted up are the float 2^n. Scaling e by it is
 * exact, as n >= -126 where the result is kept; below EXP_LOWEST the result is +0 by selection. A NaN goes through the
 * polynomial to e and so to the result (adding n to the exponent bits instead would be as fast, but makes numbers of
 * some NaNs).
 *
 * ln(2) rounded to a float is a multiple of 2^-24, and so is every x that has n != 0 but for a few with n = -1, whose
 * remainder is as short: x - n LN2 is exact in one fma, and what LN2 is off by, 1.9e-9 n, goes in by a second.
 *
 * q takes part only through r^2 q, so its rounding errors are a small part of e's. That keeps neighbours in order:
 * plain Horner, 1 + r (1 + r (...)), was tried and is not monotonic in 2863 places from -0.25 to 0. Degree 6 in all:
 * degree 5 leaves 1.4 ulp.
 *
 * The roundings of r, e and the result alone can add up to 0.95 ulp, so that the nearest floats of the minimax
 * coefficients (v_exp.py) are not good enough: 1.06 ulp. v_exp_search.c found neighbours of theirs, and of the 1.9e-9,
 * with 0.994. At most 1 ulp and monotonic: proved for every float by tests/test_exp.c --exhaustive.
 *
 * Bound: 13 operations a vector. On Intel's AVX-512 cores all of them share two ports: 6.5 cycles, of which 6.47 were
 * measured (fovea-bench --filter kernel/exp; family 6 model 207); on AMD's the compare, the shift and an addition have
 * other ports. With 0.85 ulp for one operation more (the correction taken in unrounded): 7 cycles.
 */
#ifndef FV_V_EXP_H
#define FV_V_EXP_H

enum { V_EXP_MOST = FV_LANES }; /* vectors that v_exp_each takes */

#define EXP_LOWEST -0x1.5d589ep6f /* the least float whose exp is a normal number: -87.33654 */

/* Replaces n vectors by their exp, step by step for all n: a chain is 12 operations long, and n of them side by side
 * fill the units that one leaves idle, where a loop over whole chains fills the scheduler with operations that wait. */
static inline __attribute__((always_inline)) void v_exp_each(vf *x, const int n) {
    vf t[V_EXP_MOST], r[V_EXP_MOST], q[V_EXP_MOST];
    const vf magic = v_set1(FV_MAGIC);
    for (int i = 0; i < n; i++)
        t[i] = v_fma(x[i], v_set1(0x1.715476p0f), magic); /* log2(e) */
    for (int i = 0; i < n; i++)
        q[i] = v_sub(t[i], magic);
    for (int i = 0; i < n; i++)
        r[i] = v_fma(q[i], v_set1(-0x1.62e430p-1f), x[i]); /* LN2: exact */
    for (int i = 0; i < n; i++)
        r[i] = v_fma(q[i], v_set1(0x1.07daaep-29f), r[i]);
    for (int i = 0; i < n; i++)
        q[i] = v_fma(v_set1(0x1.7a3d34p-10f), r[i], v_set1(0x1.12a748p-7f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.5543c8p-5f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.5553b6p-3f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.000008p-1f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(v_mul(r[i], r[i]), q[i], r[i]); /* e */
    for (int i = 0; i < n; i++) {
        const vf scale = v_exponent(t[i]);
        x[i] = v_fma_where(v_not_lt(x[i], v_set1(EXP_LOWEST)), q[i], scale, scale);
    }
}

static inline vf v_exp(vf x) {
    v_exp_each(&x, 1);
    return x;
}

#endif
