/* The table of operand formats, and those of integers (operand.h). */
#include "kernels.h"

const fv_format_info fv_formats[FV_FORMAT_COUNT] = {
#define FV_FORMAT(name, element, per_word, word, scale)                                                                \
    [FV_FORMAT_##name] = {#name, FV_TYPE_##element, FV_BITS_##element, per_word, FV_WORD_##word, FV_SCALE_##scale},
#include "formats.inc"
};

const int8_t fv_tables[FV_TABLE_COUNT][16] = {
    [FV_TABLE_codes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    [FV_TABLE_e2m1] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
    [FV_TABLE_iq4_nl] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
};

const fv_group_piece *fv_group_pieces(int bits, int64_t word) {
    static const fv_group_piece six[3] = {{0, 6, 2, 0}, {1, 6, 2, 2}, {2, 6, 2, 4}},
                                five[3][3] = {{{0, 5, 3, 0}, {1, 5, 2, 3}},
                                              {{2, 5, 3, 0}, {3, 5, 2, 3}},
                                              {{4, 5, 3, 0}, {1, 7, 1, 3}, {3, 7, 1, 4}}};
    return bits == 6 && word == 3 ? six : bits == 5 && word >= 5 ? five[word - 5] : NULL;
}

int fv_group_code(fv_format format, const uint8_t *column, int64_t row, int64_t t) {
    const fv_format_info f = fv_format_of(format);
    const int64_t s = t % f.per_word, word = s / 4;
    const uint8_t *at = column + t / f.per_word * (f.per_word * f.bits / 32) * row + s % 4;
    if (f.bits == 4)
        return at[word / 2 * row] >> word % 2 * 4 & 15;
    const fv_group_piece *piece = fv_group_pieces(f.bits, word);
    if (!piece)
        return at[word * row] & ((1 << f.bits) - 1);
    int code = 0;
    for (int i = 0; i < 3; i++, piece++)
        code |= (at[piece->row * row] >> piece->from & ((1 << piece->bits) - 1)) << piece->to;
    return code;
}
