/* exp: v_exp over an array, of all floats (kernels.h has the contract). FV_SIDE vectors, which a file that includes
 * this one defines, go through it side by side. If all of them are within +-87.33654, no exp needs care; one maximum of
 * their magnitudes, by units that do not multiply, and one comparison tell. FV_SIDE was measured:
 * figures are in docs/lab/softmax.md.
 *
 * A load whose address has the last twelve bits of a store shortly before it waits for that store, wherever the rest of
 * the address points ("4K aliasing"). So the array is gone through from its end where y lies behind x in its page.
 */
#include "v_exp.h"

#include <stdbool.h>

enum { EXP_PAGE = 4096, EXP_EVERY = (1 << FV_W) - 1 };

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

void FV_NAME(int64_t n, const float *x, float *y) {
    assert(n >= 0);
    const int64_t run = FV_SIDE * FV_W, runs = n / run;
    const uintptr_t behind = ((uintptr_t)y - (uintptr_t)x) % EXP_PAGE;
    const bool down = behind != 0 && behind < EXP_PAGE / 2;
    int64_t i = down ? (runs - 1) * run : 0;
    for (int64_t left = runs; left > 0; left--, i += down ? -run : run) {
        vf v[FV_SIDE];
        for (int j = 0; j < FV_SIDE; j++)
            v[j] = v_load(x + i + j * FV_W);
        exp_replace(v, FV_SIDE);
        for (int j = 0; j < FV_SIDE; j++)
            v_store(y + i + j * FV_W, v[j]);
    }
    for (i = runs * run; i + FV_W <= n; i += FV_W) {
        vf v = v_load(x + i);
        exp_replace(&v, 1);
        v_store(y + i, v);
    }
    if (i < n) {
        vf v = v_load_n(x + i, n - i);
        exp_replace(&v, 1);
        v_store_n(y + i, n - i, v);
    }
}
