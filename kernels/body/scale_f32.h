/* scale: rows times a factor into rows, and their norms (kernels.h has the contract). */
#include "lanes_tree.h"
#include "norm.h"

/* One row, and the lanes of its sum of squares, where they are asked for. */
static inline __attribute__((always_inline)) void scale_row(int64_t n, vf factor, const float *x, float *y,
                                                            float *lanes) {
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = v_set1(0.0f);
    int64_t j = 0;
    for (; j + FV_LANES <= n; j += FV_LANES)
        for (int g = 0; g < GROUP; g++) {
            const vf a = v_mul(v_load(x + j + g * FV_W), factor);
            v_store(y + j + g * FV_W, a);
            if (lanes)
                sum[g] = v_fma(a, a, sum[g]);
        }
    for (int g = 0; j < n; g++, j += FV_W) {
        const int64_t left = n - j;
        const vf a = v_mul(left < FV_W ? v_load_n(x + j, left) : v_load(x + j), factor);
        if (left < FV_W)
            v_store_n(y + j, left, a);
        else
            v_store(y + j, a);
        if (lanes)
            sum[g] = v_fma(a, a, sum[g]);
    }
    for (int g = 0; g < GROUP && lanes; g++)
        v_store(lanes + g * FV_W, sum[g]);
}

void FV_NAME(int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy, float *norm) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    const vf f = v_set1(factor);
    if (!norm) {
        for (int64_t i = 0; i < rows; i++)
            scale_row(n, f, x + i * ldx, y + i * ldy, NULL);
        return;
    }
    float lanes[FV_W * FV_LANES] = {0.0f};
    vf highest = v_set1(*norm);
    for (int64_t i = 0; i < rows; i++) {
        scale_row(n, f, x + i * ldx, y + i * ldy, lanes + i % FV_W * FV_LANES);
        if (i % FV_W == FV_W - 1 || i == rows - 1) /* the last time maybe with rows of the time before */
            highest = v_max(lanes_tree(lanes, 0), highest);
    }
    *norm = norm_highest(highest);
}
