/* multiply of floats and f16 on scalar: the definition. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_multiply_f32_f16_1x1_scalar(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc,
                                    const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const float *a = rows->data;
    const uint16_t *b = operand->data;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= n);
    const float *start = epilogue ? epilogue->start : NULL;
    (void)prefetch;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = start ? start[i * epilogue->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < k; t++)
                acc = fmaf(a[i * lda + t], half_widen_f16(b[t * ldb + j]), acc);
            c[i * ldc + j] = acc;
        }
}
