/* Packs quantized weights (quantization.h): tiles of bytes from readers (read.h), which become rows of words, written a
 * line at a time. Bound: the readers, and memory. */
#include "quantization/read.h"

#include <assert.h>

/* --------------------------------------------------------------------------------------------------------- words -- */

typedef uint32_t word_rows[FV_TILE_STEPS / 4][FV_TILE_COLUMNS];

static inline uint32_t load(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Packs a column of n steps, whole words, whose bytes have `bits` bits. */
static inline void planes(const uint8_t *x, int64_t n, int bits, int per_word, word_rows rows, int64_t c) {
    const int count = per_word * bits / 32;
    for (; n > 0; n -= per_word, x += per_word, rows += count) {
        for (int k = 0; k < count; k++)
            rows[k][c] = bits == 4 ? load(x) | load(x + 4) << 4 : load(x + 4 * k);
        for (int k = count; bits > 4 && k < per_word / 4; k++) {
            const fv_group_piece *piece = fv_group_pieces(bits, k);
            for (int i = 0; i < 3; i++, piece++)
                rows[piece->row][c] |= (load(x + 4 * k) >> piece->to & 0x01010101u * ((1u << piece->bits) - 1))
                                       << piece->from;
        }
    }
}

static void words_of_column(fv_format format, const uint8_t *x, int64_t n, word_rows rows, int64_t c) {
    switch (format) {
    case FV_FORMAT_i4g:
    case FV_FORMAT_i4tg: planes(x, n, 4, 8, rows, c); break;
    case FV_FORMAT_i5g: planes(x, n, 5, 32, rows, c); break;
    case FV_FORMAT_i6g: planes(x, n, 6, 16, rows, c); break;
    default:
        for (int64_t t = 0; t < n; t += 4)
            rows[t / 4][c] = load(x + t);
    }
}

/* A whole line at once: of unknown length, a copy of so few bytes takes as long as its words took to make. */
static inline void copy_row(const uint32_t row[FV_TILE_COLUMNS], int64_t n, uint32_t *to) {
    if (n == FV_TILE_COLUMNS)
        memcpy(to, row, FV_TILE_COLUMNS * sizeof *to);
    else
        for (int64_t c = 0; c < n; c++)
            to[c] = row[c];
}

/* -------------------------------------------------------------------------------------------------------- scales -- */

/* Scales of a group of columns, of formats without super-blocks; at: the first one's place. */
static void pack_scales(const fv_reader *r, int64_t first, int64_t count, int64_t group, char *to,
                        const fv_scale_places *at) {
    const fv_scale_words words = r->q.scales;
    const size_t size = (size_t)fv_scale_size(words);
    for (int64_t c = 0; c < count; c++) {
        const fv_stored_scale scale = fv_read_scale(r, first + c, group);
        memcpy(to + at->scale + (size_t)c * size, scale.scale, size);
        if (fv_scales_extra(words) == FV_GROUP_minimum)
            memcpy(to + at->minimum + (size_t)c * size, scale.minimum, size);
        if (fv_scales_extra(words) == FV_GROUP_zero)
            to[at->zero + (size_t)c] = (char)scale.zero;
    }
}

/* Those of all groups of a super-block. */
static void pack_super(const fv_reader *r, int64_t first, int64_t count, int64_t group, char *to,
                       const fv_scale_places *at) {
    const fv_scale_words words = r->q.scales;
    const int per = fv_scales_per_super(words);
    const bool minimum = words == FV_SCALES_super8;
    const size_t row = minimum ? 2 * (at->m - at->s) : at->m - at->s;
    for (int64_t c = 0; c < count; c++, to++) {
        const fv_block_scales super = fv_read_super(r, first + c, group);
        memcpy(to + at->scale + c, &super.d, sizeof super.d);
        if (minimum)
            memcpy(to + at->minimum + c, &super.e, sizeof super.e);
        for (int k = 0; k < per; k++) {
            to[at->s + (size_t)k * row] = (char)super.s[k];
            if (minimum)
                to[at->m + (size_t)k * row] = (char)super.m[k];
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------- pack -- */

/* Makes steps up to a whole word, which are 0. */
static int64_t fill(fv_format format, int64_t count, int64_t n, fv_tile tile) {
    const int64_t all = fv_operand_words(format, n) * fv_format_of(format).per_word;
    for (int64_t c = 0; c < count && all > n; c++)
        memset(tile[c] + n, 0, (size_t)(all - n));
    return all;
}

void fv_quantized_pack(const fovea_matrix *matrix, const fv_quantized *q, int64_t first, int64_t count, int64_t width,
                       int64_t place, void *panel) {
    fv_reader r = fv_read_begin(matrix, q->order);
    r.q = *q; /* groups may be split */
    const int64_t chunk = fv_quantized_chunk(q);
    assert(first >= 0 && first + count <= matrix->out && place + count <= width);
    fv_tile tile;
    word_rows rows;
    for (int64_t done = 0, n; done < count; done += n) {
        n = fv_min(count - done, FV_TILE_COLUMNS);
        for (int64_t t = 0, steps; t < matrix->in; t += steps) {
            steps = fv_min(matrix->in - t, FV_TILE_STEPS);
            r.read(&r, first + done, n, t, steps, tile);
            const int64_t all = fill(q->format, n, steps, tile);
            for (int64_t c = 0; c < n; c++)
                words_of_column(q->format, tile[c], all, rows, c);
            for (int64_t s = 0, end; s < steps; s = end) { /* chunk by chunk */
                end = fv_min(steps, s + chunk - (t + s) % chunk);
                uint32_t *to = (uint32_t *)panel + fv_integers_place(q, t + s, width) + place + done;
                for (int64_t i = fv_group_rows(q->format, s); i < fv_group_rows(q->format, end); i++, to += width)
                    copy_row(rows[i], n, to);
            }
            const int per = fv_scales_per_super(q->scales);
            for (int64_t g = fv_ceil_div(t, q->group); g * q->group < t + steps; g += per) {
                const fv_scale_places at = fv_scale_places_of(q, g, width, place + done);
                (per > 1 ? pack_super : pack_scales)(&r, first + done, n, g, panel, &at);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- numbers -- */

/* number = scale * (w - zero) + minimum (groups.h). */
typedef struct group_floats {
    float scale, minimum;
    int zero;
} group_floats;

static group_floats floats_of(const fv_reader *r, int64_t column, int64_t group) {
    const fv_stored_scale from = fv_read_scale(r, column, group);
    const fv_scale_words words = r->q.scales;
    group_floats to = {fv_scale_float(words, from.scale), 0.0f, from.zero};
    if (fv_scales_extra(words) == FV_GROUP_minimum)
        to.minimum = fv_scale_float(words, from.minimum);
    else if (fv_scales_extra(words) == FV_GROUP_plain)
        to.zero = fv_group_zero(r->q.format, FV_GROUP_plain);
    const int per = fv_scales_per_super(words);
    if (per == 1)
        return to;
    const fv_block_scales super = fv_read_super(r, column, group);
    const uint8_t s = super.s[group % per];
    to.scale = to.scale * (words == FV_SCALES_super8 ? (float)s : (float)(int8_t)s);
    if (words == FV_SCALES_super8)
        to.minimum = -(to.minimum * (float)super.m[group % per]);
    return to;
}

/* w - zero of integers, or the float, as a tile has it. */
static inline float element_of(const fv_quantized *q, uint8_t x, int zero) {
    switch (q->format) {
    case FV_FORMAT_f8g: return fv_e4m3_float(x);
    case FV_FORMAT_i4tg: return (float)fv_tables[q->table][x];
    case FV_FORMAT_i8g: return (float)((int8_t)x - zero);
    default: return (float)(x - zero);
    }
}

void fv_quantized_numbers(const fovea_matrix *matrix, int64_t first, int64_t count, float *to) {
    const fv_reader r = fv_read_begin(matrix, NULL);
    const int32_t *group_of = fv_dtype_scaled(matrix->dtype) ? r.quantization.group_of : NULL;
    const bool minimum = fv_scales_extra(r.q.scales) == FV_GROUP_minimum;
    /* Products with powers of two, which round nowhere, but would be flushed. */
    const fv_float_mode mode = r.q.scales == FV_SCALES_e8m0 ? fv_float_plain() : fv_float_mode_now();
    fv_tile tile;
    for (int64_t done = 0, n; done < count; done += n) {
        n = fv_min(count - done, FV_TILE_COLUMNS);
        for (int64_t t = 0, steps; t < matrix->in; t += steps) {
            steps = fv_min(matrix->in - t, FV_TILE_STEPS);
            r.read(&r, first + done, n, t, steps, tile);
            for (int64_t c = 0; c < n; c++) {
                float *row = to + (done + c) * matrix->in + t;
                group_floats g = {0};
                int64_t have = -1;
                for (int64_t i = 0; i < steps; i++) {
                    /* the group of packed weights that begins the caller's */
                    const int64_t group = group_of ? group_of[t + i] * r.group_size / r.q.group : (t + i) / r.q.group;
                    if (group != have)
                        g = floats_of(&r, first + done + c, have = group);
                    row[i] = g.scale * element_of(&r.q, tile[c][i], g.zero);
                }
                /* A loop of its own: clang would add -0 to the others, which is wrong where zeros round down. */
                have = -1;
                for (int64_t i = 0; i < steps && minimum; i++) {
                    const int64_t group = (t + i) / r.q.group;
                    if (group != have)
                        g = floats_of(&r, first + done + c, have = group);
                    row[i] = row[i] + g.minimum;
                }
            }
        }
    }
    fv_float_mode_set(&mode);
}
