/* exp: v_exp over an array (kernels.h has the contract). */
#include "v_exp.h"

void FV_NAME(int64_t n, const float *x, float *y) {
    assert(n >= 0);
    enum { SIDE = FV_EXP_SIDE };
    int64_t i = 0;
    for (; i + SIDE * FV_W <= n; i += SIDE * FV_W) {
        vf v[SIDE];
        for (int j = 0; j < SIDE; j++)
            v[j] = v_load(x + i + j * FV_W);
        v_exp_each(v, SIDE);
        for (int j = 0; j < SIDE; j++)
            v_store(y + i + j * FV_W, v[j]);
    }
    for (; i + FV_W <= n; i += FV_W)
        v_store(y + i, v_exp(v_load(x + i)));
    if (i < n)
        v_store_n(y + i, n - i, v_exp(v_load_n(x + i, n - i)));
}
