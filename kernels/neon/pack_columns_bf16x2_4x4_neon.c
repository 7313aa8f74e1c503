/* pack of columns as bf16x2 on neon: blocks of 4 keys x 8 channels are transposed as words, whose halves then change
 * places. */
#include "simd/simd_neon.h"

enum { KEYS = 4, CHANNELS = 8 };

/* For keys so far: the least magnitude less 1, so that 0 is the largest, and the greatest; squares of 4 keys. */
typedef struct packed {
    uint16x8_t least, most;
    vf squares;
} packed;

static inline __attribute__((always_inline)) void pack_words(vf block[KEYS], int64_t words, float *to, int64_t nr,
                                                             packed *p) {
    v_transpose(block);
    for (int64_t r = 0; r < words; r++) {
        const uint16x8_t pair = vrev32q_u16(vreinterpretq_u16_f32(block[r]));
        const uint16x8_t bits = vbicq_u16(pair, vdupq_n_u16(0x8000));
        const vf first = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(bits), vdupq_n_u32(0xffff0000u))),
                 second = vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(bits), 16));
        p->least = vminq_u16(p->least, vsubq_u16(bits, vdupq_n_u16(1)));
        p->most = vmaxq_u16(p->most, bits);
        p->squares = v_fma(second, second, v_fma(first, first, p->squares));
        vst1q_u16((uint16_t *)(void *)(to + r * nr), pair);
    }
}

/* A block of keys x channels, 0 <= keys <= KEYS, 0 < channels <= CHANNELS. */
static __attribute__((noinline)) void pack_edge(int64_t keys, int64_t channels, const uint16_t *k, int64_t ldk,
                                                float *to, int64_t nr, packed *p) {
    uint16_t there[KEYS][CHANNELS] = {{0}};
    vf block[KEYS];
    for (int64_t i = 0; i < keys; i++)
        memcpy(there[i], k + i * ldk, (size_t)channels * sizeof *k);
    for (int i = 0; i < KEYS; i++)
        block[i] = vreinterpretq_f32_u16(vld1q_u16(there[i]));
    pack_words(block, (channels + 1) / 2, to, nr, p);
}

void fv_pack_columns_bf16x2_4x4_neon(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent,
                                     float *panel, int64_t nr, fv_exponent_range *range, float *norm) {
    const uint16_t *k = source;
    (void)exponent;
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0 && channels >= 0 && ldk >= 0);
    packed p = {.least = vdupq_n_u16(0xffff), .most = vdupq_n_u16(0)};
    vf highest = v_set1(norm ? *norm : 0.0f);
    for (int64_t i = 0; i < (keys + FV_LANES - 1) / FV_LANES * FV_LANES; i += KEYS) {
        const int64_t rows = keys - i < 0 ? 0 : keys - i < KEYS ? keys - i : KEYS;
        p.squares = v_set1(0.0f);
        for (int64_t c = 0; c < channels; c += CHANNELS) {
            const int64_t columns = channels - c < CHANNELS ? channels - c : CHANNELS;
            const uint16_t *from = rows ? k + i * ldk + c : k;
            float *to = panel + c / 2 * nr + i;
            if (rows == KEYS && columns == CHANNELS) {
                vf block[KEYS];
                for (int r = 0; r < KEYS; r++)
                    block[r] = vreinterpretq_f32_u16(vld1q_u16(from + r * ldk));
                pack_words(block, KEYS, to, nr, &p);
            } else
                pack_edge(rows, columns, from, ldk, to, nr, &p);
        }
        highest = v_max(p.squares, highest);
    }
    const int least = vminvq_u16(p.least), most = vmaxvq_u16(p.most);
    if (least < 0xffff && least + 1 < range->least)
        range->least = least + 1;
    if (most > range->most)
        range->most = most;
    if (norm)
        *norm = vmaxvq_f32(highest);
}
