/* finish: output rows and lse from the running O, M, L (kernels.h has the formulas). */
#include "v_log.h"

static inline vf finish_lse(vf M, vf L) {
    return v_canonical(v_select(v_eq(L, v_set1(0.0f)), v_set1(-INFINITY), v_add(M, v_log(L))));
}

void FV_NAME(int64_t rows, int64_t n, const float *O, int64_t ldO, const float *M, const float *L, float *out,
             int64_t ldout, float *lse, int64_t ldlse) {
    assert(rows >= 0 && n >= 0 && ldO >= 0);
    assert(rows <= 1 || (ldout >= n && (out != O || ldout == ldO) && (!lse || ldlse >= 1)));
    for (int64_t i = 0; i < rows; i++, O += ldO, out += ldout) {
        const vf reciprocal = v_set1(L[i] == 0.0f ? 0.0f : 1.0f / L[i]);
        int64_t j = 0;
        for (; j + 4 * FV_W <= n; j += 4 * FV_W) /* fewer branches: short sequences are output mostly */
#pragma GCC unroll 4
            for (int g = 0; g < 4; g++)
                v_store(out + j + g * FV_W, v_canonical(v_mul(v_load(O + j + g * FV_W), reciprocal)));
        for (; j + FV_W <= n; j += FV_W)
            v_store(out + j, v_canonical(v_mul(v_load(O + j), reciprocal)));
        if (j < n)
            v_store_n(out + j, n - j, v_canonical(v_mul(v_load_n(O + j, n - j), reciprocal)));
    }
    if (!lse)
        return;
    for (int64_t i = 0; i < rows; i += FV_W) {
        const int64_t count = rows - i < FV_W ? rows - i : FV_W;
        float value[FV_W];
        const vf m = count < FV_W ? v_load_n(M + i, count) : v_load(M + i);
        v_store(value, finish_lse(m, count < FV_W ? v_load_n(L + i, count) : v_load(L + i)));
        for (int64_t j = 0; j < count; j++)
            lse[(i + j) * ldlse] = value[j];
    }
}
