/* pack of columns as f16x2x4 on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

void fv_pack_columns_f16x2x4_1x1_scalar(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent,
                                        float *panel, int64_t nr, fv_exponent_range *range, float *norm) {
    const uint16_t *k = source;
    enum { FOUR = 4 };
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0 && channels >= 0 && ldk >= 0);
    (void)exponent, (void)range;
    for (int64_t i = 0; i < (keys + FV_LANES - 1) / FV_LANES * FV_LANES; i += FOUR)
        for (int64_t c = 0; c < channels; c += 2) {
            uint16_t elements[2 * FOUR] = {0};
            for (int64_t e = 0; e < 2 * FOUR; e++)
                if (i + e % FOUR < keys && c + e / FOUR < channels)
                    elements[e] = k[(i + e % FOUR) * ldk + c + e / FOUR];
            memcpy(panel + c / 2 * nr + i, elements, sizeof elements);
        }
    for (int64_t i = 0; i < keys && norm; i++) {
        float squares = 0.0f;
        for (int64_t c = 0; c < channels; c++) {
            const float x = half_widen_f16(k[i * ldk + c]);
            squares = fmaf(x, x, squares);
        }
        if (squares > *norm)
            *norm = squares;
    }
}
