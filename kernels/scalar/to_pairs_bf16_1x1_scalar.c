/* to_pairs of bfloat16 on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_to_pairs_bf16_1x1_scalar(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy,
                                 fv_magnitudes *magnitudes) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint32_t bits = x[i * ldx + j];
            const int magnitude = (int)(bits & 0x7fff);
            magnitudes->least = magnitude && magnitude < magnitudes->least ? magnitude : magnitudes->least;
            magnitudes->most = magnitude > magnitudes->most ? magnitude : magnitudes->most;
            float *word = &y[i * ldy + j / 2];
            *word = half_float(j % 2 ? half_bits(*word) | bits : bits << 16);
        }
}
