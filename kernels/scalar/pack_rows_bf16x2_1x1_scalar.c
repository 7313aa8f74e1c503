/* pack of rows as bf16x2 on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_pack_rows_bf16x2_1x1_scalar(int64_t rows, int64_t n, const void *source, int64_t ldx, int exponent, float *y,
                                    int64_t ldy, fv_exponent_range *range, float *norm) {
    const uint16_t *x = source;
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    for (int64_t i = 0; i < rows; i++) {
        float squares = 0.0f;
        for (int64_t j = 0; j < n; j++) {
            const int magnitude = x[i * ldx + j] & 0x7fff;
            const uint32_t bits = (uint16_t)(x[i * ldx + j] + (magnitude ? exponent * 128 : 0));
            range->least = magnitude && magnitude < range->least ? magnitude : range->least;
            range->most = magnitude > range->most ? magnitude : range->most;
            float *word = &y[i * ldy + j / 2];
            *word = half_float(j % 2 ? half_bits(*word) | bits : bits << 16);
            squares = fmaf(half_float(bits << 16), half_float(bits << 16), squares);
        }
        if (norm && squares > *norm)
            *norm = squares;
    }
}
