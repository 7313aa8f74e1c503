/* Operands of a product: rows of A, and B in one of the formats of formats.inc. Part of kernels.h.
 *
 * A panel of packed keys, a page of the cache, values in place or copied, and packed weights are all an fv_operand:
 * `steps` by `columns` elements, step t of column j being element t % per_word of the word
 *
 *   (p / width) * panel + (t / per_word) * row + p % width - first
 *
 * counted from data, p being j + first, width 0 standing for one panel,
 * in words of per_word elements (fv_operand_place). The rest of a word after the last step is +0, unless a format's
 * kernels say that it is not read. An operand owns nothing. */
#ifndef FV_OPERAND_H
#define FV_OPERAND_H

#include "exponents.h"

#include <stddef.h>
#include <stdint.h>

typedef enum fv_type {
#define FV_TYPE(name, bits) FV_TYPE_##name,
#include "formats.inc"
    FV_TYPE_COUNT
} fv_type;

typedef enum fv_format {
#define FV_FORMAT(name, element, per_word, word, scale) FV_FORMAT_##name,
#include "formats.inc"
    FV_FORMAT_COUNT
} fv_format;

/* Bits of an element of each type, and the element types of formats, as constants. */
enum {
#define FV_TYPE(name, bits) FV_BITS_##name = bits,
#include "formats.inc"
#define FV_FORMAT(name, element, per_word, word, scale) FV_ELEMENT_##name = FV_TYPE_##element,
#include "formats.inc"
};

typedef enum fv_word_order {
    FV_WORD_step,
    FV_WORD_column,
    FV_WORD_high,
    FV_WORD_low,
    FV_WORD_fours,
    FV_WORD_planes
} fv_word_order;

typedef enum fv_scale_layout { FV_SCALE_none, FV_SCALE_row, FV_SCALE_column, FV_SCALE_group } fv_scale_layout;

typedef struct fv_format_info {
    const char *name;
    fv_type element;
    int bits, per_word;
    fv_word_order word;
    fv_scale_layout scale;
} fv_format_info;

/* Bits of an element. */
static inline int fv_type_bits(fv_type type) {
    int all = 0;
#define FV_TYPE(name, bits) all = type == FV_TYPE_##name ? bits : all;
#include "formats.inc"
    return all;
}

extern const fv_format_info fv_formats[FV_FORMAT_COUNT];

static inline fv_format_info fv_format_of(fv_format format) { return fv_formats[format]; }

/* Each group of integers has this besides its scale (groups.h). */
typedef enum fv_group_extra { FV_GROUP_plain, FV_GROUP_zero, FV_GROUP_minimum } fv_group_extra;

/* The integers that the 16 codes of i4tg stand for. */
typedef enum fv_table {
    FV_TABLE_codes,  /* these codes */
    FV_TABLE_e2m1,   /* floats of 4 bits (E2M1 of OCP's Microscaling formats), doubled: a sign, the exponent, one bit */
    FV_TABLE_iq4_nl, /* kvalues_iq4nl of ggml */
    FV_TABLE_COUNT
} fv_table;

extern const int8_t fv_tables[FV_TABLE_COUNT][16];

/* gap: words of scales that packed weights have before the integers of each `chunk` groups (groups.h), data being the
 * first of these; 0: there are integers alone. */
typedef struct fv_group {
    int16_t steps; /* of each but the last, a multiple of 16 */
    int8_t extra;  /* fv_group_extra */
    int8_t table;  /* fv_table: of i4tg */
    int16_t gap;
    int8_t chunk, scales; /* fv_scale_words of those in gaps */
} fv_group;

typedef struct fv_operand {
    const void *data;       /* its first word; alignment of an element suffices */
    const float *scales;    /* in the format's layout; NULL where it has none */
    int64_t columns, steps; /* n and k of the product, at least 1 */
    int64_t row, panel;     /* words to the next row, and to the next panel */
    union {
        fv_exponent_range range; /* of all elements; only where a caller asks for it */
        fv_group group;          /* of formats with scales by group */
    };
    int16_t width; /* columns of a panel; 0: one panel has all */
    int16_t first; /* place of the first column in its panel */
    fv_format format;
} fv_operand;

_Static_assert(sizeof(fv_operand) == 64, "an operand is one cache line");

/* Rows of A: element t of row i is data[i*stride + t], words where a kind of A has words. */
typedef struct fv_rows {
    const void *data;
    int64_t count, stride;
} fv_rows;

/* Words of a column of `steps` steps; in groups, steps are rounded up to a multiple of 16. */
static inline int64_t fv_operand_words(fv_format format, int64_t steps) {
    const fv_format_info f = fv_format_of(format);
    const int64_t all = f.scale == FV_SCALE_group ? (steps + 15) / 16 * 16 : steps;
    return (all + f.per_word - 1) / f.per_word;
}

/* Rows of words of 4 bytes of `steps` steps in groups. */
static inline int64_t fv_group_rows(fv_format format, int64_t steps) {
    const fv_format_info f = fv_format_of(format);
    return fv_operand_words(format, steps) * f.per_word * f.bits / 32;
}

/* Bytes of a panel of `steps` steps. */
static inline int64_t fv_operand_bytes(fv_format format, int64_t steps, int64_t width) {
    const fv_format_info f = fv_format_of(format);
    return fv_operand_words(format, steps) * f.per_word * f.bits * width / 8;
}

/* Words of scales between the first integers of an operand in groups and those of step t. */
static inline int64_t fv_group_skipped(fv_group group, int64_t t) {
    return group.gap ? t / (group.steps * group.chunk) * group.gap : 0;
}

/* Where element t of column j is, counted in elements from data; not of planes. */
static inline int64_t fv_operand_place(const fv_operand *b, int64_t t, int64_t j) {
    const fv_format_info f = fv_format_of(b->format);
    const int64_t p = j + b->first, e = t % f.per_word;
    if (f.word == FV_WORD_column)
        return j * b->row + t;
    const int64_t panel = b->width ? p / b->width : 0, column = b->width ? p % b->width : p,
                  word = panel * b->panel + t / f.per_word * b->row + column - b->first;
    if (f.word == FV_WORD_fours)
        return word / 4 * 4 * f.per_word + e * 4 + word % 4;
    return word * f.per_word + (f.word == FV_WORD_high ? f.per_word - 1 - e : e);
}

/* Columns from `column` on, of the panel that holds it, and steps from `step` on, which begins a word. */
static inline fv_operand fv_operand_part(const fv_operand *b, int64_t column, int64_t columns, int64_t step,
                                         int64_t steps) {
    const fv_format_info f = fv_format_of(b->format);
    fv_operand part = *b;
    const int64_t p = column + b->first, panel = b->width ? p / b->width : 0, place = b->width ? p % b->width : p,
                  rows = f.word == FV_WORD_planes ? step * f.bits / 32 : step / f.per_word,
                  words = f.word == FV_WORD_column
                              ? column * b->row + step
                              : panel * b->panel + rows * b->row + place - b->first +
                                    (f.scale == FV_SCALE_group ? fv_group_skipped(b->group, step) : 0);
    part.first = (int16_t)(b->width ? place : 0);
    part.data = (const char *)b->data + (f.word == FV_WORD_planes ? words * 4 : words * f.per_word * f.bits / 8);
    part.columns = columns;
    part.steps = steps;
    part.scales = f.scale == FV_SCALE_column               ? b->scales + column
                  : f.scale == FV_SCALE_row                ? b->scales + step
                  : f.scale == FV_SCALE_group && step == 0 ? b->scales
                                                           : NULL;
    return part; /* scales of a group that is not the first are the caller's to find */
}

#endif
