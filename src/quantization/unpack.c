/* Packed weights back as models store them (quantization.h): what packing did, undone column by column. */
#include "quantization/read.h"

/* n elements of a column. */
static void bytes_of(fv_format format, const uint8_t *column, int64_t row, int64_t n, uint8_t *to) {
    const bool planes = fv_format_of(format).word == FV_WORD_planes;
    for (int64_t t = 0; t < n; t++)
        to[t] = planes ? (uint8_t)fv_group_code(format, column, row, t) : column[t / 4 * row + t % 4];
}

/* -------------------------------------------------------------------------------------------------------- blocks -- */

static void join(const uint8_t *x, int n, uint8_t *to) {
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(x[i] % 16 | (x[n + i] & 15) << 4);
}

/* 6 bits of s and m of each group, s[8] and m[8], in 12 bytes. */
static void join_scales(const uint8_t *s, const uint8_t *m, uint8_t *to) {
    for (int k = 0; k < 4; k++) {
        to[k] = (uint8_t)(s[k] | (s[k + 4] >> 4) << 6);
        to[k + 4] = (uint8_t)(m[k] | (m[k + 4] >> 4) << 6);
        to[k + 8] = (uint8_t)((s[k + 4] & 15) | (m[k + 4] & 15) << 4);
    }
}

static void join_q6_k(const uint8_t *x, const uint8_t *s, uint8_t *to) {
    for (int half = 0; half < 2; half++) {
        join(x + 128 * half, 64, to + 64 * half);
        for (int i = 0; i < 32; i++) {
            int more = 0;
            for (int q = 0; q < 4; q++)
                more |= x[128 * half + 32 * q + i] >> 4 << 2 * q;
            to[128 + 32 * half + i] = (uint8_t)more;
        }
    }
    memcpy(to + 192, s, 16);
}

void fv_block_write(fovea_dtype dtype, const fv_block_scales *scales, const uint8_t *x, uint8_t *to) {
    const fv_block_layout *b = fv_block_layout_of(dtype);
    memcpy(to + b->scale, &scales->d, (size_t)fv_scale_size(b->scales));
    if (fv_scales_extra(b->scales) == FV_GROUP_minimum)
        memcpy(to + b->scale + 2, &scales->e, sizeof scales->e);
    if (b->scales == FV_SCALES_super16) {
        join_q6_k(x, scales->s, to);
        return;
    }
    const bool super = b->scales == FV_SCALES_super8;
    const int elements = super ? FV_SUPER : 32, pair = super ? 32 : 16;
    if (super)
        join_scales(scales->s, scales->m, to + 4);
    if (b->format == FV_FORMAT_i8g)
        memcpy(to + b->integers, x, 32);
    else
        for (int t = 0; t < elements; t += 2 * pair)
            join(x + t, pair, to + b->integers + t / 2);
    if (b->more)
        memset(to + b->more, 0, (size_t)elements / 8);
    for (int t = 0; b->more && t < elements; t++)
        if (super)
            to[b->more + t % 32] |= (uint8_t)(x[t] >> 4 << t / 32);
        else
            to[b->more + t / 8] |= (uint8_t)(x[t] >> 4 << t % 8);
}

/* Those of the block that begins with a group, from a panel. */
static fv_block_scales scales_of(const fv_quantized *q, int64_t group, int64_t width, int64_t place, const char *from) {
    const int per = fv_scales_per_super(q->scales);
    const fv_scale_places at = fv_scale_places_of(q, group, width, place);
    const bool minimum = fv_scales_extra(q->scales) == FV_GROUP_minimum;
    fv_block_scales to = {0};
    memcpy(&to.d, from + at.scale, (size_t)fv_scale_size(q->scales));
    if (minimum)
        memcpy(&to.e, from + at.minimum, sizeof to.e);
    for (int k = 0; k < per && per > 1; k++) {
        const fv_scale_places own = fv_scale_places_of(q, group + k, width, place);
        to.s[k] = (uint8_t)from[own.s];
        if (minimum)
            to.m[k] = (uint8_t)from[own.m];
    }
    return to;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void put_integers(const fv_quantized *q, fovea_dtype dtype, const uint8_t *x, int64_t step, int64_t n,
                         uint8_t *to) {
    for (int64_t t = 0; t < n; t++) {
        const int64_t i = q->order ? q->order[step + t] : step + t;
        if (dtype == FOVEA_DTYPE_U4)
            to[i / 2] |= (uint8_t)(x[t] << i % 2 * 4);
        else
            to[i] = dtype == FOVEA_DTYPE_U8 ? x[t] ^ 0x80 : x[t];
    }
}

static void put_scales(const fv_quantized *q, fovea_dtype dtype, int64_t in, int64_t group_size, int64_t width,
                       int64_t place, const char *panel, char *column_scales, uint8_t *zeros) {
    const size_t size = (size_t)fv_scale_size(q->scales);
    for (int64_t g = 0; g * group_size < in; g++) {
        const fv_scale_places at = fv_scale_places_of(q, g * group_size / q->group, width, place);
        if (column_scales)
            memcpy(column_scales + (size_t)g * size, panel + at.scale, size);
        if (zeros)
            zeros[g] = (uint8_t)(fv_scales_extra(q->scales) != FV_GROUP_zero ? (dtype == FOVEA_DTYPE_U4   ? 8
                                                                                : dtype == FOVEA_DTYPE_U8 ? 128
                                                                                                          : 0)
                                 : dtype == FOVEA_DTYPE_U8                   ? (uint8_t)panel[at.zero] ^ 0x80
                                                                             : panel[at.zero]);
    }
}

void fv_quantized_unpack(const fv_quantized *q, fovea_dtype dtype, int64_t in, int64_t group_size, int64_t width,
                         int64_t place, const void *panel, void *integers, void *column_scales, uint8_t *zeros) {
    const fv_dtype_block block = fv_dtype_block_of(dtype);
    const int64_t chunk = fv_quantized_chunk(q);
    if (integers && dtype == FOVEA_DTYPE_U4)
        memset(integers, 0, (size_t)fv_ceil_div(in, 2));
    for (int64_t t = 0, n; t < in && integers; t += n) {
        uint8_t x[FV_TILE_STEPS];
        n = fv_min(fv_min(in - t, FV_TILE_STEPS), chunk - t % chunk);
        bytes_of(q->format, (const uint8_t *)((const uint32_t *)panel + fv_integers_place(q, t, width) + place),
                 width * 4, n, x);
        if (block.elements == 1)
            put_integers(q, dtype, x, t, n, integers);
        for (int64_t k = 0; k < n && block.elements > 1; k += block.elements) {
            const fv_block_scales own = scales_of(q, (t + k) / q->group, width, place, panel);
            fv_block_write(dtype, &own, x + k, (uint8_t *)integers + (t + k) / block.elements * block.bytes);
        }
    }
    if (block.elements == 1)
        put_scales(q, dtype, in, group_size ? group_size : in, width, place, panel, column_scales, zeros);
}
