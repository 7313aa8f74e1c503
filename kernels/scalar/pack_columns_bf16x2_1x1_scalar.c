/* pack of columns as bf16x2 on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_pack_columns_bf16x2_1x1_scalar(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent,
                                       float *panel, int64_t nr, fv_exponent_range *range, float *norm) {
    const uint16_t *k = source;
    (void)exponent;
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0 && channels >= 0 && ldk >= 0);
    for (int64_t i = 0; i < (keys + FV_LANES - 1) / FV_LANES * FV_LANES; i++) {
        float squares = 0.0f;
        for (int64_t c = 0; c < channels; c += 2) {
            const uint16_t first = i < keys ? k[i * ldk + c] : 0,
                           second = i < keys && c + 1 < channels ? k[i * ldk + c + 1] : 0;
            const int both[] = {first & 0x7fff, second & 0x7fff};
            for (int e = 0; e < 2; e++) {
                const float x = half_widen_bf16((uint16_t)both[e]);
                range->least = both[e] && both[e] < range->least ? both[e] : range->least;
                range->most = both[e] > range->most ? both[e] : range->most;
                squares = fmaf(x, x, squares);
            }
            panel[c / 2 * nr + i] = half_float((uint32_t)first << 16 | second);
        }
        if (norm && squares > *norm)
            *norm = squares;
    }
}
