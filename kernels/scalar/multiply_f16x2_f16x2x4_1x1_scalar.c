/* multiply_pairs on scalar with float16: the definition. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

/* An element of word j of a row of B, whose words come in fours. */
static float element_of(const float *row, int64_t j, int second) {
    enum { FOUR = 4 };
    uint16_t elements[2 * FOUR];
    memcpy(elements, row + j / FOUR * FOUR, sizeof elements);
    return half_widen_f16(elements[second * FOUR + j % FOUR]);
}

void fv_multiply_f16x2_f16x2x4_1x1_scalar(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc,
                                          const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = (operand->steps + 1) / 2, lda = rows->stride,
                  ldb = operand->row;
    const float *a = rows->data;
    const float *b = operand->data;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0 && n % FV_LANES == 0);
    assert(!epilogue || !epilogue->a);
    float *row_max = epilogue ? epilogue->row_max : NULL;
    const float *start = epilogue ? epilogue->start : NULL, *factor = epilogue ? epilogue->b : NULL;
    (void)prefetch;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < FV_LANES && row_max && !epilogue->accumulate_max; j++)
            row_max[i * FV_LANES + j] = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            float acc = start ? start[i * epilogue->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < k; t++) {
                const uint32_t x = half_bits(a[i * lda + t]);
                acc = fmaf(half_widen_f16((uint16_t)x), element_of(b + t * ldb, j, 0), acc);
                acc = fmaf(half_widen_f16((uint16_t)(x >> 16)), element_of(b + t * ldb, j, 1), acc);
            }
            acc = factor ? acc * factor[i] : acc;
            c[i * ldc + j] = acc;
            if (row_max)
                row_max[i * FV_LANES + j % FV_LANES] = v_max(acc, row_max[i * FV_LANES + j % FV_LANES]);
        }
    }
}
