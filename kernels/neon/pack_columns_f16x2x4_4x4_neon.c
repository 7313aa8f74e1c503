/* pack of columns as f16x2x4 on neon: blocks of 4 keys x 8 channels are transposed as words, of which two vectors at a
 * time are parted into first and second elements. */
#include "simd/simd_neon.h"

enum { KEYS = 4, CHANNELS = 8 };

static inline vf squares_of(uint16x8_t four, vf squares) {
    const vf first = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(four))),
             second = vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(four)));
    return v_fma(second, second, v_fma(first, first, squares));
}

/* A block of keys x channels, 0 <= keys <= KEYS, 0 < channels <= CHANNELS. */
static vf pack_block(int64_t keys, int64_t channels, const uint16_t *k, int64_t ldk, float *to, int64_t nr,
                     vf squares) {
    uint16_t there[KEYS][CHANNELS] = {{0}};
    vf block[KEYS];
    const int whole = keys == KEYS && channels == CHANNELS;
    for (int64_t i = 0; i < keys && !whole; i++)
        memcpy(there[i], k + i * ldk, (size_t)channels * sizeof *k);
    for (int i = 0; i < KEYS; i++)
        block[i] = vreinterpretq_f32_u16(vld1q_u16(whole ? k + i * ldk : there[i]));
    v_transpose(block);
    for (int r = 0; r < KEYS && 2 * r < channels; r += 2) {
        const uint16x8_t a = vreinterpretq_u16_f32(block[r]), b = vreinterpretq_u16_f32(block[r + 1]);
        const uint64x2_t first = vreinterpretq_u64_u16(vuzp1q_u16(a, b)),
                         second = vreinterpretq_u64_u16(vuzp2q_u16(a, b));
        const uint16x8_t even = vreinterpretq_u16_u64(vzip1q_u64(first, second)),
                         odd = vreinterpretq_u16_u64(vzip2q_u64(first, second));
        squares = squares_of(odd, squares_of(even, squares));
        v_store(to + r * nr, vreinterpretq_f32_u16(even));
        if (2 * r + 2 < channels)
            v_store(to + (r + 1) * nr, vreinterpretq_f32_u16(odd));
    }
    return squares;
}

void fv_pack_columns_f16x2x4_4x4_neon(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent,
                                      float *panel, int64_t nr, fv_exponent_range *range, float *norm) {
    const uint16_t *k = source;
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0 && channels >= 0 && ldk >= 0);
    vf highest = v_set1(norm ? *norm : 0.0f);
    (void)exponent, (void)range;
    for (int64_t i = 0; i < (keys + FV_LANES - 1) / FV_LANES * FV_LANES; i += KEYS) {
        const int64_t rows = keys - i < 0 ? 0 : keys - i < KEYS ? keys - i : KEYS;
        vf squares = v_set1(0.0f);
        for (int64_t c = 0; c < channels; c += CHANNELS)
            squares = pack_block(rows, channels - c < CHANNELS ? channels - c : CHANNELS, rows ? k + i * ldk + c : k,
                                 ldk, panel + c / 2 * nr + i, nr, squares);
        highest = v_max(squares, highest);
    }
    if (norm)
        *norm = vmaxvq_f32(highest);
}
