/* exp: the exp of any floats over an array (kernels.h has the contract). FV_SIDE vectors, which a file that includes
 * this one defines, go through it side by side. FV_SIDE was measured: figures are in docs/lab/softmax.md.
 *
 * A load whose address has the last twelve bits of a store shortly before it waits for that store, wherever the rest of
 * the address points ("4K aliasing"). So the array is gone through from its end where y lies behind x in its page.
 */
#include "v_exp_any.h"

#include <stdbool.h>

enum { EXP_PAGE = 4096 };

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
