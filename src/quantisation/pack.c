/* Packs quantised weights (quantisation.h): tiles of bytes from readers (read.h), which become rows of words, written a
 * line at a time. Bound: the readers, and memory. */
#include "quantisation/read.h"

#include <assert.h>

/* ---------------------------------------------------------------------------------------------------------- words -- */

typedef uint32_t word_rows[FV_TILE_STEPS / 4][FV_TILE_COLUMNS];

static inline uint32_t load(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* A column of planes of elements of so many bits, up to n steps. */
static inline void planes(const uint8_t *x, int64_t n, int bits, int per_word, word_rows rows, int64_t c) {
    const uint32_t more = 0x01010101u * ((1u << (bits - 4)) - 1);
    int64_t row = 0;
    for (int64_t t = 0; t < n; t += per_word) {
        for (int k = 0; k < per_word; k += 8)
            rows[row++][c] = (load(x + t + k) & 0x0f0f0f0f) | (load(x + t + k + 4) & 0x0f0f0f0f) << 4;
        if (bits == 4)
            continue;
        uint32_t upper = 0;
        for (int k = 0; k < per_word / 4; k++)
            upper |= (load(x + t + 4 * k) >> 4 & more) << k * (bits - 4);
        rows[row++][c] = upper;
    }
}

static void words_of_column(fv_format format, const uint8_t *x, int64_t n, word_rows rows, int64_t c) {
    switch (format) {
    case FV_FORMAT_i4g: planes(x, n, 4, 8, rows, c); break;
    case FV_FORMAT_i5g: planes(x, n, 5, 32, rows, c); break;
    case FV_FORMAT_i6g: planes(x, n, 6, 16, rows, c); break;
    default:
        for (int64_t t = 0; t < n; t += 4)
            rows[t / 4][c] = load(x + t);
    }
}

/* --------------------------------------------------------------------------------------------------------- scales -- */

static void pack_scale(const fv_reader *r, int64_t column, int64_t group, char *to, fv_scale_places at) {
    const fv_stored_scale scale = fv_read_scale(r, column, group);
    const fv_scale_words words = r->q.scales;
    const int per = fv_scales_per_super(words);
    if (group % per == 0) {
        memcpy(to + at.scale, scale.scale, (size_t)fv_scale_size(words));
        if (fv_scales_extra(words) == FV_GROUP_minimum)
            memcpy(to + at.minimum, scale.minimum, sizeof(uint16_t));
    }
    if (per > 1)
        to[at.s] = (char)scale.s;
    if (words == FV_SCALES_super8)
        to[at.m] = (char)scale.m;
    if (fv_scales_extra(words) == FV_GROUP_zero)
        to[at.zero] = (char)scale.zero;
}

/* ----------------------------------------------------------------------------------------------------------- pack -- */

/* Makes steps up to a whole word, which are 0. */
static int64_t fill(fv_format format, int64_t count, int64_t n, fv_tile tile) {
    const int64_t all = fv_operand_words(format, n) * fv_format_of(format).per_word;
    for (int64_t c = 0; c < count && all > n; c++)
        memset(tile[c] + n, 0, (size_t)(all - n));
    return all;
}

void fv_quantised_pack(const fovea_matrix *matrix, const fv_quantised *q, int64_t first, int64_t count, int64_t width,
                       int64_t place, void *words, void *scales) {
    fv_reader r = fv_read_begin(matrix, q->order);
    r.q = *q; /* groups may be split */
    assert(first >= 0 && first + count <= matrix->out && place + count <= width);
    fv_tile tile;
    word_rows rows;
    for (int64_t done = 0, n; done < count; done += n) {
        n = fv_min(count - done, FV_TILE_COLUMNS);
        for (int64_t t = 0, steps; t < matrix->in; t += steps) {
            steps = fv_min(matrix->in - t, FV_TILE_STEPS);
            r.read(&r, first + done, n, t, steps, tile);
            const int64_t all = fill(q->format, n, steps, tile), lines = fv_group_rows(q->format, steps);
            for (int64_t c = 0; c < n; c++)
                words_of_column(q->format, tile[c], all, rows, c);
            uint32_t *to = (uint32_t *)words + fv_group_rows(q->format, t) * width + place + done;
            for (int64_t i = 0; i < lines; i++)
                memcpy(to + i * width, rows[i], (size_t)n * sizeof **rows);
            for (int64_t g = fv_ceil_div(t, q->group); g * q->group < t + steps; g++)
                for (int64_t c = 0; c < n; c++)
                    pack_scale(&r, first + done + c, g, scales,
                               fv_scale_places_of(q->scales, g, width, place + done + c));
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- numbers -- */

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
    if (words == FV_SCALES_super8) {
        to.scale = to.scale * (float)from.s;
        to.minimum = -(to.minimum * (float)from.m);
    }
    if (words == FV_SCALES_super16)
        to.scale = to.scale * (float)(int8_t)from.s;
    return to;
}

void fv_quantised_numbers(const fovea_matrix *matrix, int64_t first, int64_t count, float *to) {
    const fv_reader r = fv_read_begin(matrix, NULL);
    const int32_t *group_of = fv_dtype_scaled(matrix->dtype) ? r.quantisation.group_of : NULL;
    const bool minimum = fv_scales_extra(r.q.scales) == FV_GROUP_minimum, bytes = r.q.format == FV_FORMAT_i8g;
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
                    const float number = g.scale * (float)((bytes ? (int8_t)tile[c][i] : tile[c][i]) - g.zero);
                    row[i] = number;
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
}
