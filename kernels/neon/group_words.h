/* Integers of a panel in groups (groups.h), of FV_GROUP_FORMAT: four steps of four columns as bytes, a column's in a
 * word. Blocks of 16 steps, in which groups begin, have whole rows of words of every format but i5g, whose two blocks
 * share five. */
#ifndef FV_NEON_GROUP_WORDS_H
#define FV_NEON_GROUP_WORDS_H

#include "simd/int8_neon.h"

enum {
    GROUP_BITS = FV_GROUP_FORMAT == FV_FORMAT_i8g   ? 8
                 : FV_GROUP_FORMAT == FV_FORMAT_i6g ? 6
                 : FV_GROUP_FORMAT == FV_FORMAT_i5g ? 5
                                                    : 4,
    GROUP_BLOCK = 16
};

/* The first row of the words that have the block at step t, a multiple of 16. */
static inline int64_t group_row(int64_t t) { return GROUP_BITS == 5 ? t / 32 * 5 : t * GROUP_BITS / 32; }

/* Steps t + 4k to t + 4k + 3 of the block at t; from is its first word, rows are `row` bytes apart. Unsigned, except
 * for i8g. */
static inline int8x16_t group_four(const uint8_t *from, int64_t row, int64_t t, const int k) {
    if (GROUP_BITS == 8)
        return vreinterpretq_s8_u8(vld1q_u8(from + k * row));
    if (GROUP_BITS == 4) {
        const uint8x16_t halves = vld1q_u8(from + k / 2 * row);
        return vreinterpretq_s8_u8(k % 2 ? vshrq_n_u8(halves, 4) : vandq_u8(halves, vdupq_n_u8(15)));
    }
    const int64_t word = GROUP_BITS == 5 ? t % 32 / 4 + k : k;
    const fv_group_piece *piece = fv_group_pieces(GROUP_BITS, word);
    if (!piece)
        return vreinterpretq_s8_u8(vandq_u8(vld1q_u8(from + word * row), vdupq_n_u8((1 << GROUP_BITS) - 1)));
    uint8x16_t w = vdupq_n_u8(0);
    for (int i = 0; i < 3; i++, piece++) {
        const uint8x16_t bits =
            vshlq_u8(vld1q_u8(from + piece->row * row), vdupq_n_s8((int8_t)(piece->to - piece->from)));
        w = vorrq_u8(w, vandq_u8(bits, vdupq_n_u8((uint8_t)(((1 << piece->bits) - 1) << piece->to))));
    }
    return vreinterpretq_s8_u8(w);
}

/* Zeros of four columns, whose scales begin at scale. */
static inline int32x4_t group_zeros(const fv_operand *b, const float *scale) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    return extra == FV_GROUP_zero ? vcvtq_s32_f32(vld1q_f32(scale + b->width))
                                  : vdupq_n_s32(fv_group_zero(FV_GROUP_FORMAT, extra));
}

#endif
