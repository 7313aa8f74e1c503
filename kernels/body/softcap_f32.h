/* softcap: s = cap tanh(factor s) over rows (kernels.h has the contract). FV_SIDE vectors, which a file that includes
 * this one defines, go through tanh side by side.
 *
 * Bound: v_tanh.h's operations and two multiplications, a load and a store a vector (fovea-bench --filter
 * kernel/softcap). Figures: docs/lab/softmax.md.
 */
#include "v_tanh.h"

static inline __attribute__((always_inline)) void softcap_replace(float *s, vf factor, vf cap, int *near,
                                                                  const int count) {
    vf x[FV_SIDE];
    for (int g = 0; g < count; g++)
        x[g] = v_mul(v_load(s + g * FV_W), factor);
    v_tanh_each(x, count, near);
    for (int g = 0; g < count; g++)
        v_store(s + g * FV_W, v_mul(x[g], cap));
}

void FV_NAME(int64_t rows, int64_t n, float factor, float cap, float *s, int64_t lds) {
    enum { TOGETHER = FV_SIDE * FV_W, GROUP = FV_LANES / FV_W };
    _Static_assert(FV_SIDE % GROUP == 0, "whole groups");
    assert(rows >= 0 && n >= 0 && n % FV_LANES == 0 && (rows <= 1 || lds >= n));
    assert(factor > 0.0f && cap > 0.0f);
    const vf f = v_set1(factor), c = v_set1(cap);
    for (int64_t i = 0; i < rows; i++, s += lds) {
        int near = 1; /* scores of a row are alike */
        int64_t j = 0;
        for (; j + TOGETHER <= n; j += TOGETHER)
            softcap_replace(s + j, f, c, &near, FV_SIDE);
        for (; (int)TOGETHER > FV_LANES && j < n; j += FV_LANES)
            softcap_replace(s + j, f, c, &near, GROUP);
    }
}
