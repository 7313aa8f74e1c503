/* The exp of any floats: v_exp for those whose exp is a normal number, and with care for all others. Vectors side by
 * side; if all of them are within +-87.33654, no exp needs care: one maximum of their magnitudes, by units that do not
 * multiply, and one comparison tell. */
#ifndef FV_V_EXP_ANY_H
#define FV_V_EXP_ANY_H

#include "v_exp.h"

enum { EXP_EVERY = (1 << FV_W) - 1 };

#define EXP_HIGHEST 0x1.62e42ep6f /* the greatest float whose exp is finite: 88.72283 */

/* The exp of any floats. 2^128 is no float, so above zero half of the exp is computed, by t of 8 more, and doubled. */
static __attribute__((noinline)) vf exp_careful(vf x) {
    const vf zero = v_set1(0.0f), lowest = v_set1(EXP_LOWEST), highest = v_set1(EXP_HIGHEST);
    const vm above = v_not_lt(x, lowest), below = v_not_lt(highest, x); /* both of a NaN */
    const vf up = v_select(v_not_lt(zero, x), zero, v_set1(1.0f));
    const vf bounded = v_select(above, v_select(below, x, highest), lowest);
    vf t, e;
    v_exp_reduce(&bounded, &t, &e, 1);
    const vf scale = v_exp2_lookup(v_fma(up, v_set1(8.0f), t), exp_eighths), half = v_fma(e, scale, scale);
    const vf y = v_select(below, v_fma(up, half, half), v_set1(INFINITY));
    return v_select(v_nan(x), v_set1(NAN), v_select(above, y, zero));
}

static inline __attribute__((always_inline)) void exp_replace(vf *x, const int n) {
    vf farthest = v_set1(0.0f);
    for (int i = 0; i < n; i++)
        farthest = v_max_abs(farthest, x[i]);
    if (__builtin_expect(v_to_bits(v_le(farthest, v_set1(-EXP_LOWEST))) == EXP_EVERY, 1))
        v_exp_each(x, n, 1);
    else
        for (int i = 0; i < n; i++)
            x[i] = exp_careful(x[i]);
}

#endif
