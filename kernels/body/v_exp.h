/* v_exp: e^x for x <= 0, the one exp of softmax, merges, weights and the array kernel.
 *
 * x = n ln(2) + r with n an integer and |r| <= ln(2)/2; e^x = 2^n + 2^n e with e = r + r^2 q(r). Adding FV_MAGIC to x
 * log2(e) rounds it to n and leaves n + 127 in the low bits, which shifted up are the float 2^n. Scaling e by it is
 * exact, as n >= -126 where the result is kept; below EXP_LOWEST the result is +0 by selection. A NaN goes through the
 * polynomial to e and so to the result (adding n to the exponent bits instead would be as fast, but makes numbers of
 * some NaNs).
 *
 * r = high + low, and e takes them in unrounded: with the rounded r in both places the worst error is 1.06 ulp.
 * q takes part only through r^2 q, so its rounding errors are a small part of e's. That keeps neighbours in order:
 * plain Horner, 1 + r (1 + r (...)), was tried and is not monotonic in 2863 places between -0.25 and 0.
 *
 * The constants come from v_exp.py beside this file. Degree 6: degree 5 leaves 1.4 ulp. At most 1 ulp and monotonic:
 * proved for every float by tests/test_exp.c --exhaustive.
 *
 * Bound: 10 FMA-class operations a vector, besides three additions, compare, shift and select that have other ports on
 * AMD's cores (5 cycles a vector); on Intel's AVX-512 cores all of them share two ports (8).
 */
#ifndef FV_V_EXP_H
#define FV_V_EXP_H

enum { V_EXP_MOST = FV_LANES }; /* vectors that v_exp_each takes */

#define EXP_LOWEST -0x1.5d589ep6f /* the least float whose exp is a normal number: -87.33654 */

/* Replaces n vectors by their exp, step by step for all n: a chain is 14 operations long, and n of them side by side
 * fill the units that one leaves idle, where a loop over whole chains fills the scheduler with operations that wait. */
static inline __attribute__((always_inline)) void v_exp_each(vf *x, const int n) {
    vf t[V_EXP_MOST], high[V_EXP_MOST], low[V_EXP_MOST], r[V_EXP_MOST], q[V_EXP_MOST];
    const vf magic = v_set1(FV_MAGIC);
    for (int i = 0; i < n; i++)
        t[i] = v_fma(x[i], v_set1(0x1.715476p0f), magic); /* log2(e) */
    for (int i = 0; i < n; i++)
        low[i] = v_sub(t[i], magic);
    for (int i = 0; i < n; i++)
        high[i] = v_fma(low[i], v_set1(-0x1.62e4p-1f), x[i]); /* ln(2), its upper 15 bits: exact */
    for (int i = 0; i < n; i++)
        low[i] = v_mul(low[i], v_set1(-0x1.7f7d1cp-20f));
    for (int i = 0; i < n; i++)
        r[i] = v_add(high[i], low[i]);
    for (int i = 0; i < n; i++)
        q[i] = v_fma(v_set1(0x1.7a99cep-10f), r[i], v_set1(0x1.1274a0p-7f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.554610p-5f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.555432p-3f));
    for (int i = 0; i < n; i++)
        q[i] = v_fma(q[i], r[i], v_set1(0x1.000006p-1f));
    for (int i = 0; i < n; i++)
        r[i] = v_mul(r[i], r[i]);
    for (int i = 0; i < n; i++)
        q[i] = v_add(high[i], v_fma(r[i], q[i], low[i])); /* e */
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
