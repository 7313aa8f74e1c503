/* Weights as integers of 4 to 8 bits in groups with scales: the formats i4g, i4tg, i5g, i6g and i8g; and as floats of 8
 * bits, f8g. Part of kernels.h, which defines the terms.
 *
 * A group is fv_operand.group.steps consecutive steps of a column, the last one shorter; at most FV_I8_CHANNELS, and a
 * multiple of 16 unless it is the only or the last group. With w the stored integer (i8g -128 to 127, the others
 * without sign; i4tg: what its table has for the stored code), each operation rounded once by the caller's mode,
 * never contracted:
 *
 *   zero    = 0 of i8g and i4tg, 8 of i4g, 16 of i5g, 32 of i6g; 0 of groups with a minimum; or the group's own
 *             (FV_GROUP_zero)
 *   number  = scale * (w - zero);  + minimum, where the group has one (FV_GROUP_minimum); w - zero is an integer,
 *             so that it is +0 in any mode
 *
 * f8g, which has no zeros and minimums: number = scale * w, w the float (fv_e4m3_float()).
 *
 * unpack makes these numbers, and the arithmetic `exact` multiplies them. Products of the kinds i16, i8x2 and i8 take
 * rows of x as integers, made by quantize: for each group of a row, most being FV_I8_MOST (q16) or FV_Q8_MOST (q8)
 *
 *   top     = max of |x[t]|
 *   X[t]    = rint(x[t] * (most / top)), ties to even in any mode, no further than most from 0
 *   x_scale = top / most
 *             all 0 where top < 2^-112; where an x[t] is NaN or infinite, all X are 0 and x_scale is NaN
 *   S       = sum of X[t]
 *
 * and group after group, ascending, from acc = start, or +0:
 *
 *   I       = sum of X[t] * (w[t] - zero), an integer
 *   acc     = fma(I, scale * x_scale, acc), I to float32 and the product of scales each rounded
 *   acc     = fma(S, minimum * x_scale, acc), where there is a minimum, rounded likewise
 *
 * No sum overflows 32 bits in any order: FV_I8_CHANNELS * 16319 * 128 < 2^31, and 16319 * 255 * 512, which bounds
 * groups of i8g with a zero of their own. Partial sums may wrap; the final sum is exact. */
#ifndef FV_GROUPS_H
#define FV_GROUPS_H

#include <string.h>

enum {
    FV_Q8_MOST = 127,
    FV_Q8_CHANNELS = 128 /* groups of weights are packed as several for q8, or one large x would be the scale of many */
};

/* A group of a row of A: words of 4 bytes, which the kind of A lays out as its kernels read them. Of each 16 channels,
 * 0 past the last,
 *   i16    8 words of two int16: of each four channels the first and the third, then the other two
 *   i8x2   4 words of high, then 4 of low, int8 of four channels each: X = 128 * high + low, -64 <= low < 64
 *   i8     4 words of four int8 */
typedef struct fv_group_row {
    float scale;
    int32_t sum;
    uint32_t word[];
} fv_group_row;

enum { FV_GROUP_HEAD = sizeof(fv_group_row) / sizeof(uint32_t), FV_GROUP_WORDS = 8 /* of 16 channels, but of i8 */ };

/* Words of `channels` channels of one group, and of a row of A. */
static inline int64_t fv_group_row_words(fv_kind kind, int64_t channels) {
    return FV_GROUP_HEAD + (channels + 15) / 16 * (kind == FV_KIND_i8 ? FV_GROUP_WORDS / 2 : FV_GROUP_WORDS);
}
static inline int64_t fv_group_words(fv_kind kind, int64_t n, int64_t group) {
    const int64_t left = n % group;
    return n / group * fv_group_row_words(kind, group) + (left ? fv_group_row_words(kind, left) : 0);
}

/* The X of channel t. */
static inline int fv_group_x(fv_kind kind, const fv_group_row *row, int64_t t) {
    const int8_t *bytes = (const int8_t *)row->word;
    if (kind == FV_KIND_i16)
        return ((const int16_t *)(const void *)bytes)[t / 4 * 4 + t % 2 * 2 + t % 4 / 2];
    if (kind == FV_KIND_i8)
        return bytes[t];
    return 128 * bytes[t / 16 * 32 + t % 16] + bytes[t / 16 * 32 + 16 + t % 16];
}

/* quantize: rows of x[i*ldx + t], n channels in groups of `group`, as rows of A of one of these kinds,
 * fv_group_words(kind, n, group) words each. For i8 most is FV_Q8_MOST. */
typedef void fv_quantize_i8_fn(int64_t rows, int64_t n, int64_t group, fv_kind kind, int most, const float *x,
                               int64_t ldx, uint32_t *to);

/* Layout of the scales of a panel, group after group; of super-blocks, the fields of the super-block, then those of
 * each of its groups. [w]: one for each of the panel's `width` columns. */
typedef enum fv_scale_words {
    FV_SCALES_f32,      /* float scale[w] */
    FV_SCALES_f16,      /* float16 scale[w] */
    FV_SCALES_bf16,     /* bfloat16 scale[w] */
    FV_SCALES_f32_zero, /* the same, then int8_t zero[w] */
    FV_SCALES_f16_zero,
    FV_SCALES_bf16_zero,
    FV_SCALES_f16_minimum, /* float16 scale[w], minimum[w] */
    FV_SCALES_super8,      /* of 8 groups: float16 d[w], e[w]; of each: uint8_t s[w], m[w]: scale = d * s,
                              minimum = -(e * m) */
    FV_SCALES_super16,     /* of 16 groups: float16 d[w]; of each: int8_t s[w]: scale = d * s */
    FV_SCALES_e8m0,        /* uint8_t e[w]: scale = 2^(e - 128) (fv_e8m0_float()) */
    FV_SCALES_COUNT
} fv_scale_words;

static inline float fv_float_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* 2^(e - 128), subnormal for 0 and 1, NaN for 255, in any mode. */
static inline float fv_e8m0_float(uint8_t e) {
    return fv_float_of(e == 255 ? 0x7fc00000 : e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* A float of 8 bits, E4M3FN: 4 bits of exponent, 3 of fraction, no infinity. In any mode. */
static inline float fv_e4m3_float(uint8_t byte) {
    const uint32_t sign = (uint32_t)(byte & 0x80) << 24, exponent = byte >> 3 & 15, fraction = byte & 7;
    if ((byte & 0x7f) == 0x7f)
        return fv_float_of(sign | 0x7fc00000);
    return exponent ? fv_float_of(sign | (exponent + 120) << 23 | fraction << 20)
                    : (float)fraction * fv_float_of(sign | 118 << 23);
}

static inline int fv_scales_per_super(fv_scale_words words) {
    return words == FV_SCALES_super8 ? 8 : words == FV_SCALES_super16 ? 16 : 1;
}

static inline fv_group_extra fv_scales_extra(fv_scale_words words) {
    return words == FV_SCALES_f16_minimum || words == FV_SCALES_super8   ? FV_GROUP_minimum
           : words >= FV_SCALES_f32_zero && words <= FV_SCALES_bf16_zero ? FV_GROUP_zero
                                                                         : FV_GROUP_plain;
}

/* Bytes of a super-block for each column: of its own fields, and of each of its groups. */
static inline int fv_scales_super_bytes(fv_scale_words words) {
    return words == FV_SCALES_super8 ? 4 : words == FV_SCALES_super16 ? 2 : 0;
}
static inline int fv_scales_group_bytes(fv_scale_words words) {
    static const int bytes[FV_SCALES_COUNT] = {4, 2, 2, 5, 3, 3, 4, 2, 1, 1};
    return bytes[words];
}

/* Bytes of the scales of `groups` groups of a panel. The last super-block may be short. */
static inline int64_t fv_scales_bytes(fv_scale_words words, int64_t groups, int64_t width) {
    const int64_t per = fv_scales_per_super(words), supers = (groups + per - 1) / per;
    return (supers * fv_scales_super_bytes(words) + groups * fv_scales_group_bytes(words)) * width;
}

/* scales: the scales of groups [first, first + groups) of a panel as products and unpack take them: for each group a
 * row of width floats, scale; then, unless its extra is plain, a row of zero or minimum. first begins a super-block.
 * from: the panel's first scale; its width is a multiple of FV_LANES. */
typedef void fv_scales_f32_fn(fv_scale_words words, const void *from, int64_t width, int64_t first, int64_t groups,
                              float *to);

/* Floats of a group that scales writes. */
static inline int64_t fv_scales_row(fv_group_extra extra, int64_t width) {
    return extra == FV_GROUP_plain ? width : 2 * width;
}

/* The constant zero of a format whose groups have none of their own. */
static inline int fv_group_zero(fv_format format, fv_group_extra extra) {
    return extra != FV_GROUP_plain   ? 0
           : format == FV_FORMAT_i4g ? 8
           : format == FV_FORMAT_i5g ? 16
           : format == FV_FORMAT_i6g ? 32
                                     : 0;
}

/* expand: integers of 4 to 6 bits, w - zero, as words of i8g with ldy words to the next row: all steps and columns
 * of b, in one panel, columns a multiple of FV_LANES. What is behind the last step is not defined. */
typedef void fv_expand_i4_fn(const fv_operand *b, uint32_t *y, int64_t ldy);
typedef fv_expand_i4_fn fv_expand_i5_fn, fv_expand_i6_fn;

/* Products of these formats, for many rows, of i8g (those of body/multiply_groups.h also of i4g), and for few, of which
 * there may be any number: b lies in one panel, columns are a multiple of nr and of FV_LANES, b->first is one of
 * FV_LANES, b->scales are those of scales, of all groups of the panel (the first column of the panel first: b->first is
 * added); steps begin with a group. The epilogue has only start, which may be c. What is behind the last step of a word
 * need not be 0: the words of A are. c overlaps nothing else. A and B both may be read as whole words and, of B, whole
 * rows of FV_LANES. Few rows take gaps on AVX-512 and AVX2, scales being NULL then; steps begin with a chunk. One row
 * with gaps may take several whole panels, as wide as nr. Groups of i6g and i4tg are plain for few rows; of i5g
 * steps and groups are multiples of 32. */

/* Rows of scalar, of all kinds and formats (multiply_groups.c). */
void fv_multiply_groups_scalar(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, fv_kind kind);

/* How words of bytes lie in rows of them, of 16 steps of i6g and 32 of i5g: as many words as there are rows lie in the
 * lower bits of each byte, and the words after these in the upper ones, piece by piece: `bits` bits from bit `from` on
 * of that row are those of the word from bit `to` on. */
typedef struct fv_group_piece {
    uint8_t row, from, bits, to;
} fv_group_piece;

/* The pieces of a word, three, those of no bits last; NULL: the row of its number has it. */
const fv_group_piece *fv_group_pieces(int bits, int64_t word);

/* The bits of element t of a column of words in planes; rows are `row` bytes apart. */
int fv_group_code(fv_format format, const uint8_t *column, int64_t row, int64_t t);

/* The element t of column j, w, of a panel that b begins. */
static inline int fv_group_integer(const fv_operand *b, int64_t t, int64_t j) {
    const uint8_t *column = (const uint8_t *)b->data + 4 * (j + fv_group_skipped(b->group, t));
    if (fv_format_of(b->format).word != FV_WORD_planes)
        return ((const int8_t *)column)[t / 4 * b->row * 4 + t % 4];
    const int code = fv_group_code(b->format, column, b->row * 4, t);
    return b->format == FV_FORMAT_i4tg ? fv_tables[b->group.table][code] : code;
}

#endif
