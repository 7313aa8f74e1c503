/* exp: v_exp over an array (kernels.h has the contract). FV_SIDE vectors, which a file that includes this one defines,
 * go through it side by side: as many as was fastest on AMD (family 25 model 17: one on AVX-512, 8.1 cycles for 16
 * floats, more 8.3; two on AVX2, 8.9, of one 9.8: fovea-bench --filter kernel/exp).
 *
 * A load whose address has the last twelve bits of a store shortly before it waits for that store, wherever the rest of
 * the address points ("4K aliasing", Intel's optimization manual; AMD family 26 model 2 does the same: 65536 floats at
 * 10.5 to 14.8 G/s instead of 15 where y lies 16 to 1000 bytes behind x in its page). So the array is gone through from
 * its end where y lies behind.
 */
#include "v_exp.h"

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
        v_exp_each(v, FV_SIDE, 0);
        for (int j = 0; j < FV_SIDE; j++)
            v_store(y + i + j * FV_W, v[j]);
    }
    for (i = runs * run; i + FV_W <= n; i += FV_W)
        v_store(y + i, v_exp(v_load(x + i)));
    if (i < n)
        v_store_n(y + i, n - i, v_exp(v_load_n(x + i, n - i)));
}
