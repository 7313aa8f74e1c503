/* exp: v_exp over an array (kernels.h has the contract). FV_SIDE vectors, which a file that includes this one defines,
 * go through it side by side: as many as was fastest on AMD (family 25 model 17: one on AVX-512, 8.1 cycles for 16
 * floats, more 8.3; two on AVX2, 8.9, of one 9.8: fovea-bench --filter kernel/exp). */
#include "v_exp.h"

void FV_NAME(int64_t n, const float *x, float *y) {
    assert(n >= 0);
    int64_t i = 0;
    for (; i + FV_SIDE * FV_W <= n; i += FV_SIDE * FV_W) {
        vf v[FV_SIDE];
        for (int j = 0; j < FV_SIDE; j++)
            v[j] = v_load(x + i + j * FV_W);
        v_exp_each(v, FV_SIDE);
        for (int j = 0; j < FV_SIDE; j++)
            v_store(y + i + j * FV_W, v[j]);
    }
    for (; i + FV_W <= n; i += FV_W)
        v_store(y + i, v_exp(v_load(x + i)));
    if (i < n)
        v_store_n(y + i, n - i, v_exp(v_load_n(x + i, n - i)));
}
