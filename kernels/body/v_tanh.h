/* v_tanh: the hyperbolic tangent, for softcap.
 *
 * tanh is odd, so the magnitude a = |x| is taken, as n = -a, and the sign is put back at the end. The magnitudes from 0
 * to V_TANH_MOST, beyond which tanh rounds to 1, are cut into eight intervals that end half an octave apart: at
 * V_TANH_FIRST and at every 2^22 in the bits of a float behind it. So the bits of a less a constant, shifted down, are
 * the interval, which selects the entries of nine tables of eight, a register each:
 *
 *     tanh(n) = value + r (a1 + z (a2 + z (... + z a7))),   r = n + center, exact,   z = r
 *
 * In the first interval, where center is -0, z is r^2, value is r, and a1 is 0, so that results near 0 have a small
 * relative error, too. A center is a float whose tanh is almost a float, value. There is no division; a table costs one
 * lookup, by units that do not multiply. The constants come from v_tanh.py in this folder. A NaN goes through.
 *
 * Why neighbours stay in order: beyond the first interval r steps by an ulp of a, which is more than an ulp of r, and
 * so outweighs what the roundings of its factor do; in the first, that factor is small; the last rounding keeps order;
 * and where intervals meet, the polynomials were fitted to be in order.
 *
 * Vectors that all lie in the first interval, as the scores of a model that was trained with a cap mostly do, need no
 * lookups: the same operations with constants.
 *
 * At most 2^-24 and 2^-22 of it from exact, monotonic, never beyond 1: proved for every float by
 * test_tanh.c --exhaustive.
 *
 * Bound: 8 fma or mul, an addition, a comparison, a maximum, 9 lookups and 9 operations on bits a vector; in the first
 * interval 8 fma or mul and 4 operations on bits. Figures: docs/lab/softmax.md. */
#ifndef FV_V_TANH_H
#define FV_V_TANH_H

enum { V_TANH_TOGETHER = FV_LANES }; /* vectors that v_tanh_each takes */

#define V_TANH_FIRST 0.875f /* the end of the first interval */
#define V_TANH_MOST 9.0f    /* that of the last one */

enum { V_TANH_CENTER, V_TANH_VALUE, V_TANH_A1, V_TANH_A7 = V_TANH_A1 + 6, V_TANH_ROWS };

static const float v_tanh_table[V_TANH_ROWS][8] = {
    {-0.0f, 0x1.0d0b2ep+0f, 0x1.81bdbap+0f, 0x1.12662ep+1f, 0x1.7d6a8p+1f, 0x1.12f99ap+2f, 0x1.829cep+2f,
     0x1.fe2804p+2f}, /* center */
    {0.0f, -0x1.907964p-1f, -0x1.d00fb2p-1f, -0x1.f21f1cp-1f, -0x1.fd5d2ep-1f, -0x1.ffcf68p-1f, -0x1.fffe84p-1f,
     -0x1.fffff8p-1f}, /* value */
    {0.0f, 0x1.8d846ep-2f, 0x1.6d8e34p-3f, 0x1.b617ap-5f, 0x1.508aaap-7f, 0x1.84ac4cp-11f, 0x1.7bf72cp-16f,
     0x1.cd600ep-22f}, /* a1 */
    {-0x1.5554e6p-2f, 0x1.36edb8p-2f, 0x1.4b541p-3f, 0x1.aa3754p-5f, 0x1.4ecf5ap-7f, 0x1.8492e2p-11f, 0x1.7c3f6ep-16f,
     0x1.fff482p-22f}, /* a2 */
    {0x1.10feb4p-3f, 0x1.bac77ep-4f, 0x1.64e84p-4f, 0x1.0ca062p-5f, 0x1.b9cd6cp-8f, 0x1.02ef1ep-11f, 0x1.fb6dfp-17f,
     0x1.661e1p-21f}, /* a3 */
    {-0x1.b7ea74p-5f, -0x1.1111cp-6f, 0x1.9a7a9p-6f, 0x1.dd4a1p-7f, 0x1.b08dcep-9f, 0x1.01997ap-12f, 0x1.f4a4d2p-18f,
     0x1.56355ap-23f}, /* a4 */
    {0x1.55ee52p-6f, -0x1.4b1a28p-5f, -0x1.35fd04p-9f, 0x1.22e63ap-8f, 0x1.4be5cep-10f, 0x1.98462ap-14f,
     0x1.8c58fap-19f, -0x1.3976cp-21f}, /* a5 */
    {-0x1.c01dfep-8f, -0x1.36fb82p-6f, -0x1.cbea1ap-8f, 0x1.1afe4cp-11f, 0x1.99d05ap-12f, 0x1.25d94p-15f,
     0x1.35effap-20f, 0x1.6ab6cp-26f}, /* a6 */
    {0x1.54f826p-10f, -0x1.652eap-12f, -0x1.052116p-8f, -0x1.7a0ae8p-12f, 0x1.69adc4p-14f, 0x1.652f9ap-17f,
     0x1.780e54p-22f, 0x1.7871bcp-22f}, /* a7 */
};

enum { V_TANH_EVERY = (1 << FV_W) - 1 }; /* all lanes */

/* Does none of n vectors have a lane beyond the first interval, or a NaN? */
static inline __attribute__((always_inline)) int v_tanh_all_first(const vf *x, const int n) {
    vf farthest = v_set1(0.0f);
    for (int i = 0; i < n; i++)
        farthest = v_max_abs(farthest, x[i]);
    return v_to_bits(v_le(farthest, v_set1(V_TANH_FIRST))) == V_TANH_EVERY;
}

/* v_tanh_each, where all entries are those of the first interval. */
static inline __attribute__((always_inline)) void v_tanh_first(vf *x, const int n) {
    vf r[V_TANH_TOGETHER], z[V_TANH_TOGETHER], y[V_TANH_TOGETHER];
    for (int i = 0; i < n; i++) {
        r[i] = v_negative(x[i]);
        z[i] = v_mul(r[i], r[i]);
        y[i] = v_set1(v_tanh_table[V_TANH_A7][0]);
    }
    for (int row = V_TANH_A7 - 1; row >= V_TANH_A1; row--)
        for (int i = 0; i < n; i++)
            y[i] = v_fma(y[i], z[i], v_set1(v_tanh_table[row][0]));
    for (int i = 0; i < n; i++)
        x[i] = v_with_sign(v_fma(y[i], r[i], r[i]), x[i]);
}

/* Replaces n vectors by their tanh, step by step for all of them, as v_exp_each does. *near: are they worth a look
 * whether they all lie in the first interval? It becomes 0 where they did not. */
static inline __attribute__((always_inline)) void v_tanh_each(vf *x, const int n, int *near) {
    vf r[V_TANH_TOGETHER], z[V_TANH_TOGETHER], y[V_TANH_TOGETHER];
    vi at[V_TANH_TOGETHER];
    vm first[V_TANH_TOGETHER];
    *near = *near && v_tanh_all_first(x, n);
    if (__builtin_expect(*near, 1)) {
        v_tanh_first(x, n);
        return;
    }
    for (int i = 0; i < n; i++)
        r[i] = v_max(v_set1(-V_TANH_MOST), v_negative(x[i])); /* a NaN stays */
    for (int i = 0; i < n; i++)
        at[i] = v_half_octave(r[i], v_set1(-V_TANH_FIRST));
    for (int i = 0; i < n; i++) {
        first[i] = v_not_lt(r[i], v_set1(-V_TANH_FIRST));
        r[i] = v_add(r[i], v_lookup(at[i], v_tanh_table[V_TANH_CENTER]));
        z[i] = v_mul_where(first[i], r[i], r[i]);
        y[i] = v_lookup(at[i], v_tanh_table[V_TANH_A7]);
    }
    for (int row = V_TANH_A7 - 1; row >= V_TANH_A1; row--)
        for (int i = 0; i < n; i++)
            y[i] = v_fma(y[i], z[i], v_lookup(at[i], v_tanh_table[row]));
    for (int i = 0; i < n; i++) {
        const vf value = v_select(first[i], r[i], v_lookup(at[i], v_tanh_table[V_TANH_VALUE]));
        x[i] = v_with_sign(v_fma(y[i], r[i], value), x[i]);
    }
}

#endif
