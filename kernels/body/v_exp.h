/* v_exp: e^x for x <= 0 (up to 87 nothing differs), the one exp of softmax, merges, weights and the array kernel.
 *
 * x = -k ln(2)/8 + x', k an integer and |x'| <= ln(2)/16; with k = 8 n - j, 0 <= j < 8, e^x = 2^-n 2^(j/8) e^x' (a
 * table of few entries before a short polynomial: Tang, "Table-driven implementation of the exponential function in
 * IEEE floating-point arithmetic", ACM TOMS 15, 1989). Adding EXP_MAGIC to -x 8 log2(e) rounds that to k and leaves k
 * in the low bits of t: the last three of them select 2^(j/8), and all, shifted up, are taken from its exponent. The
 * entries hold what the bits of j do there, too: a lookup, a shift and a subtraction give 2^-n 2^(j/8).
 *
 * ln(2) rounded to a float is a multiple of 2^-24, so that EXP_STEP, an eighth, is one of 2^-27; x is a multiple of
 * 2^-28 where k != 0: x + k EXP_STEP is exact in one fma. What EXP_STEP is off by, 2.4e-10 k, goes in by a second,
 * which takes t instead of k: what EXP_MAGIC adds is a constant, and so r = x' + s, s = -0.0020145. The entries are
 * therefore 2^(j/8) e^-s (1 + g), g = -2.1e-8 for the smallest error of the polynomial, and s was chosen (v_exp.py)
 * from millions so that all eight are floats almost: the worst is 0.09 ulp off, where 2^(j/8) would be up to half a
 * ulp. s costs nothing, and is negative for the entry of j = 0 to be at least 1, as at n = 126 it would be no normal
 * number else.
 *
 * e = r + r^2 (C2 + C3 r) is e^r - 1, and the result scale + scale e, rounded once. As e is small, its own roundings
 * hardly count; and all of r, e and the result keep neighbours in order. Below EXP_LOWEST the result is +0 by
 * selection. A NaN goes through the polynomial to the result.
 *
 * At most 0.924 ulp, monotonic: proved for every float by test_exp.c --exhaustive.
 *
 * Bound: 12 operations a vector, seven fma or mul and one comparison among them, which share the units that multiply;
 * the others have units of their own on some cores. One polynomial for |r| <= ln(2)/2, without a table, has 13, of
 * which 11 need those units. Figures: docs/lab/softmax.md.
 */
#ifndef FV_V_EXP_H
#define FV_V_EXP_H

enum { V_EXP_MOST = FV_LANES }; /* vectors that v_exp_each takes */

#define EXP_LOWEST -0x1.5d589ep6f     /* the least float whose exp is a normal number: -87.33654 */
#define EXP_EIGHTHS -0x1.715476p3f    /* -8 log2(e) */
#define EXP_MAGIC 0x1.024p23f         /* a float whose ulp is 1, and a multiple of 2^12: k 2^20 is all that is left */
#define EXP_STEP 0x1.62e43p-4f        /* ln(2) / 8 */
#define EXP_STEP_OFF -0x1.05bf9cp-32f /* nearly; that of EXP_MAGIC is s */
#define EXP_C2 0x1.000a38p-1f
#define EXP_C3 0x1.550590p-3f

/* Entry i: the bits of 2^(j/8) e^-s (1 + g) minus j 2^20, j = -i modulo 8. */
static const uint32_t exp_eighths[8] = {
    0x3f804214, 0x3f7b39f7, 0x3f77b41e, 0x3f75cd12, 0x3f756266, 0x3f765488, 0x3f788685, 0x3f7bddd1,
};

/* t and e of n vectors, step by step for all n: a chain is 8 operations long, and n of them side by side
 * fill the units that one leaves idle, where a loop over whole chains fills the scheduler with operations that wait. */
static inline __attribute__((always_inline)) void v_exp_reduce(const vf *x, vf *t, vf *e, const int n) {
    vf r[V_EXP_MOST];
    const vf magic = v_set1(EXP_MAGIC);
    for (int i = 0; i < n; i++)
        t[i] = v_fma(x[i], v_set1(EXP_EIGHTHS), magic);
    for (int i = 0; i < n; i++)
        r[i] = v_fma(v_sub(t[i], magic), v_set1(EXP_STEP), x[i]);
    for (int i = 0; i < n; i++)
        r[i] = v_fma(t[i], v_set1(EXP_STEP_OFF), r[i]);
    for (int i = 0; i < n; i++)
        e[i] = v_fma(r[i], v_set1(EXP_C3), v_set1(EXP_C2));
    for (int i = 0; i < n; i++)
        e[i] = v_fma(v_mul(r[i], r[i]), e[i], r[i]);
}

/* Replaces n vectors by their exp, what is below lowest, which is EXP_LOWEST or more, by +0. lowest -INFINITY: nothing
 * is below EXP_LOWEST, and no comparison is needed. */
static inline __attribute__((always_inline)) void v_exp_from(vf *x, const int n, const float lowest) {
    vf t[V_EXP_MOST], e[V_EXP_MOST];
    v_exp_reduce(x, t, e, n);
    for (int i = 0; i < n; i++) {
        const vf scale = v_exp2_lookup(t[i], exp_eighths);
        x[i] = lowest == -INFINITY ? v_fma(e[i], scale, scale)
                                   : v_fma_where(v_not_lt(x[i], v_set1(lowest)), e[i], scale, scale);
    }
}

/* Replaces n vectors by their exp. normal: none is below EXP_LOWEST. */
static inline __attribute__((always_inline)) void v_exp_each(vf *x, const int n, const int normal) {
    v_exp_from(x, n, normal ? -INFINITY : EXP_LOWEST);
}

static inline vf v_exp(vf x) {
    v_exp_each(&x, 1, 0);
    return x;
}

#endif
