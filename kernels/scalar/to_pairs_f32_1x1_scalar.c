/* to_pairs on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_to_pairs_f32_1x1_scalar(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy,
                                fv_magnitudes *magnitudes) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    uint32_t lost = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j += 2) {
            const uint32_t first = half_bits(x[i * ldx + j]), second = j + 1 < n ? half_bits(x[i * ldx + j + 1]) : 0;
            const int both[] = {(int)(first >> 16 & 0x7fff), (int)(second >> 16 & 0x7fff)};
            for (int e = 0; e < 2; e++) {
                magnitudes->least = both[e] && both[e] < magnitudes->least ? both[e] : magnitudes->least;
                magnitudes->most = both[e] > magnitudes->most ? both[e] : magnitudes->most;
            }
            lost |= (first | second) & 0xffff;
            y[i * ldy + j / 2] = half_float((first & 0xffff0000u) | second >> 16);
        }
    if (lost && magnitudes->most < 0x7f80)
        magnitudes->most = 0x7f80;
}
