/* How quantized weights lie in the caller's memory: what checks, packing and dequantizing have in common.
 *
 * fv_read_begin() makes a reader of a matrix. It gives integers as packed formats store them (groups.h), tiles of steps
 * of several columns at a time, and where the scale of a group is. */
#ifndef FV_QUANTIZATION_READ_H
#define FV_QUANTIZATION_READ_H

#include "quantization/quantization.h"

#include <string.h>

enum { FV_TILE_STEPS = 256, FV_TILE_COLUMNS = 16, FV_SUPER = 256 };

/* A tile: columns of steps. */
typedef uint8_t fv_tile[FV_TILE_COLUMNS][FV_TILE_STEPS];

/* How a type of blocks is packed, and where its parts are, in bytes from a block's beginning. Blocks of 32 have a scale
 * for all and, behind it, a minimum for all, if any. Super-blocks have the scale of scales, that of minimums behind it,
 * and the groups' own (fv_read_super()). */
typedef struct fv_block_layout {
    fovea_dtype dtype;
    fv_format format;
    fv_scale_words scales;
    fv_table table;
    int group, scale;
    int integers, more; /* bytes, or the low nibbles; bits above these */
} fv_block_layout;

/* NULL: the type has no blocks. */
const fv_block_layout *fv_block_layout_of(fovea_dtype dtype);

typedef struct fv_reader fv_reader;

/* Steps [step, step + n) of columns [first, first + count), step a multiple of FV_TILE_STEPS. */
typedef void fv_read_fn(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to);

struct fv_reader {
    fovea_matrix matrix;
    fovea_quantization quantization; /* a copy: the caller's may be shorter */
    fv_quantized q;
    fv_read_fn *read;
    const fv_block_layout *block;                             /* NULL: integers */
    int64_t row_bytes, block_bytes;                           /* of blocks: of an output channel; of one */
    int block_shift;                                          /* its elements as a power of two */
    int64_t group_size, scale_group_stride, scale_out_stride; /* of integers */
    int64_t word_stride, in_bits, word_bits, per_word;        /* where an integer is: place_in(), place_out() */
    int bits;
};

/* A reader of a checked matrix. order: of its steps, or NULL. */
fv_reader fv_read_begin(const fovea_matrix *matrix, const int32_t *order);

/* A group's scale and minimum where they are stored; d and e of a super-block among them. */
typedef struct fv_stored_scale {
    const void *scale, *minimum;
    int zero;
} fv_stored_scale;

fv_stored_scale fv_read_scale(const fv_reader *r, int64_t column, int64_t group);

/* A block's scales: d; e, the scale of minimums or the minimum; s and m of the groups of a super-block. */
typedef struct fv_block_scales {
    uint16_t d, e;
    uint8_t s[16], m[16];
} fv_block_scales;

/* All that the super-block of a group has. */
fv_block_scales fv_read_super(const fv_reader *r, int64_t column, int64_t group);

/* The zero of a group of integers as stored, with its offset. */
int64_t fv_read_zero(const fv_reader *r, int64_t column, int64_t group);

/* Bytes of a scale. */
static inline int fv_scale_size(fv_scale_words words) {
    return words == FV_SCALES_f32 || words == FV_SCALES_f32_zero ? 4 : words == FV_SCALES_e8m0 ? 1 : 2;
}

/* Where a column's scale of a group is in a panel. */
typedef struct fv_scale_places {
    size_t scale, minimum, s, m, zero; /* bytes from its beginning */
} fv_scale_places;

static inline fv_scale_places fv_scale_places_of(const fv_quantized *q, int64_t group, int64_t width, int64_t place) {
    const fv_scale_words words = q->scales;
    const int per = fv_scales_per_super(words), size = fv_scale_size(words);
    const int64_t first = fv_round_down(group, per), chunk = fv_round_down(first, fv_quantized_chunk(q) / q->group),
                  at =
                      4 * fv_quantized_words(q, width, chunk * q->group) + fv_scales_bytes(words, first - chunk, width);
    const int64_t own = at + (fv_scales_super_bytes(words) + group % per * fv_scales_group_bytes(words)) * width;
    return (fv_scale_places){.scale = (size_t)(at + size * place),
                             .minimum = (size_t)(at + size * (width + place)),
                             .s = (size_t)(own + place),
                             .m = (size_t)(own + width + place),
                             .zero = (size_t)(at + size * width + place)};
}

/* The first integers of step t of a panel, of column 0, t beginning a word: in words. */
static inline int64_t fv_integers_place(const fv_quantized *q, int64_t t, int64_t width) {
    const int64_t chunk = fv_round_down(t, fv_quantized_chunk(q));
    return fv_quantized_words(q, width, chunk) + fv_quantized_gap(q, width) +
           fv_group_rows(q->format, t - chunk) * width;
}

/* A block of integers without sign (of Q8_0 int8) as files have it. */
void fv_block_write(fovea_dtype dtype, const fv_block_scales *scales, const uint8_t *x, uint8_t *to);

/* Do groups of that size divide in? Checks fovea_quantization.group_size. */
fovea_status fv_group_size_check(int64_t in, int64_t group_size, const char *name);

/* A number of 16 bits that is finite as a float. */
static inline float fv_half_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, rest = half & 0x3ff;
    uint32_t bits;
    float number = (float)rest * 0x1p-24f;
    memcpy(&bits, &number, sizeof bits);
    bits = sign | (exponent ? (exponent + 112) << 23 | rest << 13 : bits);
    memcpy(&number, &bits, sizeof bits);
    return number;
}

static inline float fv_scale_float(fv_scale_words words, const void *at) {
    float number;
    uint16_t half;
    if (words == FV_SCALES_e8m0)
        return fv_e8m0_float(*(const uint8_t *)at);
    if (fv_scale_size(words) == 4) {
        memcpy(&number, at, sizeof number);
        return number;
    }
    memcpy(&half, at, sizeof half);
    if (words != FV_SCALES_bf16 && words != FV_SCALES_bf16_zero)
        return fv_half_float(half);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

#endif
