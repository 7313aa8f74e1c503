/* gemm_pairs on scalar: the definition. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_multiply_bf16x2_bf16x2_1x1_scalar(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc,
                                          const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = (operand->steps + 1) / 2, lda = rows->stride,
                  ldb = operand->row;
    const float *a = rows->data;
    const float *b = operand->data;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0);
    const float *merge_a = epilogue ? epilogue->a : NULL, *merge_b = epilogue ? epilogue->b : NULL;
    float *row_max = epilogue ? epilogue->row_max : NULL;
    const float *start = epilogue ? epilogue->start : NULL;
    (void)prefetch;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < FV_LANES && row_max && !epilogue->accumulate_max; j++)
            row_max[i * FV_LANES + j] = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            float acc = start ? start[i * epilogue->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < k; t++) {
                const float *x = &a[i * lda + t], *y = &b[t * ldb + j];
                acc = fmaf(v_pair_first(x), v_pair_first(y), acc);
                acc = fmaf(v_pair_second(x), v_pair_second(y), acc);
            }
            float *to = &c[i * ldc + j];
            if (merge_b)
                acc *= merge_b[i];
            *to = merge_a ? fmaf(*to, merge_a[i], acc) : acc;
            if (row_max)
                row_max[i * FV_LANES + j % FV_LANES] = v_max(acc, row_max[i * FV_LANES + j % FV_LANES]);
        }
    }
}
