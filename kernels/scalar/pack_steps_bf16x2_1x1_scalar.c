/* pack of steps as bf16x2 on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_pack_steps_bf16x2_1x1_scalar(int64_t rows, int64_t n, const void *source, int64_t ldx, int exponent, float *y,
                                     int64_t ldy, fv_exponent_range *range, float *norm) {
    const uint16_t *x = source;
    (void)exponent, (void)norm;
    assert(rows >= 0 && n >= 0 && ldx >= 0 && (rows <= 2 || ldy >= n));
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t j = 0; j < n; j++) {
            const uint16_t first = x[i * ldx + j], second = i + 1 < rows ? x[(i + 1) * ldx + j] : 0;
            const int both[] = {first & 0x7fff, second & 0x7fff};
            for (int e = 0; e < 2; e++) {
                range->least = both[e] && both[e] < range->least ? both[e] : range->least;
                range->most = both[e] > range->most ? both[e] : range->most;
            }
            y[i / 2 * ldy + j] = half_float((uint32_t)first << 16 | second);
        }
}
