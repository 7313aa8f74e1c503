/* gemm_widen of float16 on scalar: the definition. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_gemm_widen_f16_1x1_scalar(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const void *b,
                                  int64_t ldb, float *c, int64_t ldc, int accumulate, const fv_prefetch *prefetch) {
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= n);
    (void)prefetch;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint16_t *halves = (const uint16_t *)b;
            float acc = accumulate ? c[i * ldc + j] : 0.0f;
            for (int64_t t = 0; t < k; t++)
                acc = fmaf(a[i * lda + t], half_widen_f16(halves[t * ldb + j]), acc);
            c[i * ldc + j] = acc;
        }
}
