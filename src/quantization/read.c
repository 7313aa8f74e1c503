/* Readers of quantized weights (read.h). Bytes of eight elements are made of words of 8 bytes. */
#include "quantization/read.h"

static inline uint64_t load(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
static inline void store(uint8_t *to, uint64_t word) { memcpy(to, &word, sizeof word); }

static const uint64_t low = 0x0f0f0f0f0f0f0f0f, high = 0x8080808080808080;

/* Eight nibbles as bytes, the lowest first. */
static inline uint64_t spread(uint32_t word) {
    uint64_t x = word;
    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    return (x | x << 4) & low;
}

/* ------------------------------------------------------------------------------------------------------ integers -- */

/* Where an integer is, in bits: what its channel and its column add. */
static const int8_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static inline int64_t place_in(const fv_reader *r, int64_t i) {
    return i / r->per_word * r->word_stride + i % r->per_word * r->in_bits;
}
static inline int64_t place_out(const fv_reader *r, int64_t o) {
    return r->quantization.packing == FOVEA_PACKING_AWQ ? o / 8 * 32 + awq_place[o % 8] * 4 : o * r->word_bits;
}

/* Any layout, any order, row after row. */
static void read_any(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    const uint8_t *data = r->matrix.data, flip = r->matrix.dtype == FOVEA_DTYPE_U8 ? 0x80 : 0;
    const int mask = (1 << r->bits) - 1;
    int64_t columns[FV_TILE_COLUMNS];
    for (int64_t c = 0; c < count; c++)
        columns[c] = place_out(r, first + c);
    for (int64_t t = 0; t < n; t++) {
        const int64_t row = place_in(r, r->q.order ? r->q.order[step + t] : step + t);
        for (int64_t c = 0; c < count; c++)
            to[c][t] = (uint8_t)((data[(row + columns[c]) / 8] >> (row + columns[c]) % 8 & mask) ^ flip);
    }
}

/* Columns whose bytes follow each other, first byte of a column at a whole byte. */
static void read_columns(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    const uint64_t flip = r->matrix.dtype == FOVEA_DTYPE_U8 ? high : 0;
    for (int64_t c = 0; c < count; c++) {
        const uint8_t *from = (const uint8_t *)r->matrix.data + (place_in(r, step) + place_out(r, first + c)) / 8;
        int64_t t = 0;
        if (r->bits == 8) {
            for (; t + 8 <= n; t += 8)
                store(to[c] + t, load(from + t) ^ flip);
            for (; t < n; t++)
                to[c][t] = (uint8_t)(from[t] ^ (flip & 0x80));
            continue;
        }
        for (; t + 8 <= n; t += 8) {
            uint32_t word;
            memcpy(&word, from + t / 2, sizeof word);
            store(to[c] + t, spread(word));
        }
        for (; t < n; t++)
            to[c][t] = from[t / 2] >> t % 2 * 4 & 15;
    }
}

/* Words of 32 bits along in, a row of words after the other. */
static void read_words(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    for (int64_t t = 0; t < n; t += r->per_word)
        for (int64_t c = 0; c < count; c++) {
            const uint8_t *from =
                (const uint8_t *)r->matrix.data + (place_in(r, step + t) + place_out(r, first + c)) / 8;
            uint32_t word;
            memcpy(&word, from, sizeof word);
            if (r->bits == 4) {
                store(to[c] + t, spread(word));
            } else {
                word ^= (uint32_t)high;
                memcpy(to[c] + t, &word, sizeof word);
            }
        }
}

/* -------------------------------------------------------------------------------------------------------- blocks -- */

static inline const uint8_t *block_of(const fv_reader *r, int64_t column, int64_t step) {
    return (const uint8_t *)r->matrix.data + column * r->row_bytes + (step >> r->block_shift) * r->block_bytes;
}

/* The column's blocks of a tile; those of the next one are fetched, as rows are read in turns, and none long enough for
 * the processor to see a stream. */
static inline const uint8_t *blocks_of_tile(const fv_reader *r, int64_t column, int64_t step) {
    const uint8_t *blocks = block_of(r, column, step);
    const int64_t bytes = (FV_TILE_STEPS >> r->block_shift) * r->block_bytes;
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(blocks + bytes + i);
    return blocks;
}

/* n low nibbles, then the n high ones. */
static inline void halves(const uint8_t *from, int n, uint8_t *to) {
    for (int i = 0; i < n; i += 8) {
        store(to + i, load(from + i) & low);
        store(to + n + i, load(from + i) >> 4 & low);
    }
}

/* The fifth bits of eight elements, of a byte. */
static inline uint64_t fifth_bits(uint8_t bits) {
    const uint64_t each = (uint64_t)bits * 0x0101010101010101 & 0x8040201008040201;
    return ((each + 0x7f7f7f7f7f7f7f7f) & high) >> 3;
}

/* Blocks of 32; fifth bits, if any, are those of a word. */
static void read_blocks(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    const int integers = r->block->integers, more = r->block->more;
    for (int64_t c = 0; c < count; c++) {
        const uint8_t *block = blocks_of_tile(r, first + c, step);
        for (int64_t t = 0; t < n; t += 32, block += r->block_bytes) {
            uint8_t *x = to[c] + t;
            if (r->q.format == FV_FORMAT_i8g)
                memcpy(x, block + integers, 32);
            else
                halves(block + integers, 16, x);
            for (int i = 0; more && i < 4; i++)
                store(x + 8 * i, load(x + 8 * i) | fifth_bits(block[more + i]));
        }
    }
}

/* A super-block of 4 or 5 bits; of the fifth, bit g of a byte is that of group g. */
static void read_super8(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    (void)n;
    for (int64_t c = 0; c < count; c++) {
        const uint8_t *block = blocks_of_tile(r, first + c, step);
        for (int i = 0; i < 4; i++)
            halves(block + r->block->integers + 32 * i, 32, to[c] + 64 * i);
        for (int t = 0; r->block->more && t < FV_SUPER; t += 8)
            store(to[c] + t, load(to[c] + t) | (load(block + r->block->more + t % 32) >> t / 32 & 0x0101010101010101)
                                                   << 4);
    }
}

/* 128 bytes of nibbles, 64 of two more bits; each half of them is 128 elements: q of them have nibble q / 2 of byte
 * 32 * (q % 2) + t % 32, and bits 2 q of byte t % 32, q = t / 32. Then scales, then d. */
static void read_q6_k(const fv_reader *r, int64_t first, int64_t count, int64_t step, int64_t n, fv_tile to) {
    (void)n;
    for (int64_t c = 0; c < count; c++) {
        const uint8_t *block = blocks_of_tile(r, first + c, step);
        for (int half = 0; half < 2; half++)
            halves(block + 64 * half, 64, to[c] + 128 * half);
        for (int t = 0; t < FV_SUPER; t += 8) {
            const uint64_t more = load(block + 128 + t / 128 * 32 + t % 32) >> t / 32 % 4 * 2;
            store(to[c] + t, load(to[c] + t) | (more & 0x0303030303030303) << 4);
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- scales -- */

/* 12 bytes of scales and minimums of 6 bits: the first four of each are the low bits of bytes 0 to 7, the others have
 * their low nibbles in bytes 8 to 11 and the rest in the high bits of bytes 0 to 7. */
fv_block_scales fv_read_super(const fv_reader *r, int64_t column, int64_t group) {
    const uint8_t *block = block_of(r, column, group * r->q.group);
    fv_block_scales to = {0};
    memcpy(&to.d, block + r->block->scale, sizeof to.d);
    if (r->q.scales == FV_SCALES_super16) {
        memcpy(to.s, block + 192, sizeof to.s);
        return to;
    }
    uint32_t nibbles;
    memcpy(&to.e, block + 2, sizeof to.e);
    memcpy(&nibbles, block + 12, sizeof nibbles);
    const uint64_t x = load(block + 4), x0 = x & 0x3f3f3f3f3f3f3f3f,
                   x4 = (((uint64_t)nibbles | (uint64_t)nibbles << 28) & low) | (x >> 2 & 0x3030303030303030);
    store(to.s, (x0 & UINT32_MAX) | x4 << 32);
    store(to.m, x0 >> 32 | (x4 >> 32 << 32));
    return to;
}

/* The place of a scale or zero of a group of integers, in elements. */
static inline int64_t scale_place(const fv_reader *r, int64_t group, int64_t o) {
    const int64_t together = r->quantization.out_group_size;
    return group * r->scale_group_stride + (together > 1 ? o / together : o) * r->scale_out_stride;
}

int64_t fv_read_zero(const fv_reader *r, int64_t o, int64_t group) {
    const fovea_quantization *q = &r->quantization;
    const uint8_t *zeros = q->zeros;
    if (q->packing == FOVEA_PACKING_PLAIN)
        return zeros[scale_place(r, group, o)] + (int64_t)q->zero_offset;
    const int64_t bit =
        group * r->matrix.out * r->bits + (q->packing == FOVEA_PACKING_AWQ ? place_out(r, o) : o * r->bits);
    return (zeros[bit / 8] >> bit % 8 & ((1 << r->bits) - 1)) + (int64_t)q->zero_offset;
}

fv_stored_scale fv_read_scale(const fv_reader *r, int64_t column, int64_t group) {
    const fovea_quantization *q = &r->quantization;
    if (r->block) {
        const uint8_t *scale = block_of(r, column, group * r->q.group) + r->block->scale;
        return (fv_stored_scale){.scale = scale, .minimum = scale + 2};
    }
    const int64_t own = group * r->q.group / r->group_size;
    fv_stored_scale scale = {.scale = q->scales ? (const void *)(q->scales + column)
                                                : (const char *)q->group_scales +
                                                      scale_place(r, own, column) * fv_scale_size(r->q.scales)};
    if (q->zeros)
        scale.zero = (int)fv_read_zero(r, column, own) - (r->bits == 8 ? 128 : 0);
    return scale;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void begin_integers(fv_reader *r) {
    const fovea_matrix *m = &r->matrix;
    const fovea_quantization *q = &r->quantization;
    r->bits = fv_dtype_bits(m->dtype);
    r->group_size = q->group_size ? q->group_size : r->q.scales == FV_SCALES_e8m0 ? r->q.group : m->in;
    const int64_t groups = m->in / r->group_size;
    r->scale_group_stride = q->scale_group_stride;
    r->scale_out_stride = q->scale_out_stride;
    if (r->scale_group_stride == 0 && r->scale_out_stride == 0) {
        const bool plain = q->packing == FOVEA_PACKING_PLAIN;
        r->scale_group_stride = plain ? 1 : m->out;
        r->scale_out_stride = plain ? groups : 1;
    }
    r->read = read_any;
    r->per_word = 1;
    switch (q->packing) {
    case FOVEA_PACKING_GPTQ:
        r->per_word = 32 / r->bits;
        r->word_stride = m->out * 32;
        r->in_bits = r->bits;
        r->word_bits = 32;
        r->read = r->q.order ? read_any : read_words;
        break;
    case FOVEA_PACKING_AWQ: r->word_stride = m->out * 4; break;
    default:
        r->word_stride = m->in_stride * r->bits;
        r->word_bits = m->out_stride * r->bits;
        if (!r->q.order && m->in_stride == 1 && (r->bits == 8 || m->out_stride % 2 == 0))
            r->read = read_columns;
    }
}

fv_reader fv_read_begin(const fovea_matrix *matrix, const int32_t *order) {
    fv_reader r = {.matrix = *matrix};
    fovea_quantization_init(&r.quantization);
    if (matrix->quantization)
        (void)fv_struct_read(FV_STRUCT(fovea_quantization), matrix->quantization, &r.quantization);
    if (r.quantization.packing != FOVEA_PACKING_PLAIN) /* then they may be anything */
        r.matrix.in_stride = r.matrix.out_stride = 0;
    r.q = fv_quantized_of(matrix);
    r.q.order = order;
    r.row_bytes = fv_dtype_bytes(matrix->dtype, r.matrix.out_stride);
    r.block = matrix->quantization ? NULL : fv_block_layout_of(matrix->dtype); /* MXFP4 has both ways */
    const fv_dtype_block block = fv_dtype_block_of(matrix->dtype);
    r.block_bytes = block.bytes;
    r.block_shift = block.elements == FV_SUPER ? 8 : 5;
    if (r.block)
        r.read = r.q.scales == FV_SCALES_super8    ? read_super8
                 : r.q.scales == FV_SCALES_super16 ? read_q6_k
                                                   : read_blocks;
    else
        begin_integers(&r);
    return r;
}
