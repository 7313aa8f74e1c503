/* Rows as integers, in a mode of its own, so that they have the same bits whatever the caller's is: of 8 bits
 * (fovea/cache.h), x[i] becomes rint(x[i] * (127 / max|x|)), ties to even, and the scale is max|x| / 127; of 4 bits by
 * int4.h. */
#include "cache/pool.h"

#include <math.h>
#include <string.h>

enum { PART = 64, MOST = 127 };

/* Scales of rows are normal numbers, and what multiplies them is finite. A row of less is one of zeros. */
static const float least = 0x1p-119f;

/* Bits of |x|: as integers they have the order of the numbers, and those of Inf and NaN come last. */
static int32_t largest_bits(int64_t n, const float *x, int32_t most) {
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    return most;
}

/* The sum with 2^23 + 2^22 is rounded to an integer, whose lowest byte is that of its bits. */
static void round_row(int64_t n, const float *x, float factor, int8_t *to) {
    for (int64_t i = 0; i < n; i++) {
        const float sum = x[i] * factor + 0x1.8p23f;
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        to[i] = (int8_t)bits;
    }
}

/* Part of a row as floats: where they are, or in memory that is given. */
static const float *floats_of(const fv_converter *c, int64_t at, int64_t n, const void *from, float *memory) {
    const char *part = (const char *)from + at * c->from_size;
    if (!c->widen)
        return (const float *)(const void *)part;
    fv_convert_to_floats(c, n, part, memory);
    return memory;
}

/* Not inline: nothing of it may move out of its mode. */
static __attribute__((noinline)) float quantize(const fv_converter *c, int64_t n, const void *from, int8_t *to) {
    float memory[PART], largest;
    int32_t bits = 0;
    for (int64_t at = 0; at < n; at += PART)
        bits = largest_bits(fv_min(n - at, PART), floats_of(c, at, fv_min(n - at, PART), from, memory), bits);
    memcpy(&largest, &bits, sizeof largest);
    if (!(largest >= least && largest < INFINITY)) {
        for (int64_t i = 0; i < n; i++)
            to[i] = 0;
        return largest < least ? 0.0f : NAN;
    }
    const float factor = (float)MOST / largest;
    for (int64_t at = 0; at < n; at += PART)
        round_row(fv_min(n - at, PART), floats_of(c, at, fv_min(n - at, PART), from, memory), factor, to + at);
    return largest / (float)MOST;
}

static void to_i8(const fv_pages *p, int side, const fv_converter *floats, const void *from, int32_t page, int64_t head,
                  int64_t key) {
    const bool words = p->part[side].word > 0;
    int8_t row[FV_I8_CHANNELS];
    void *const to = words ? (char *)row : fv_page_at(p, side, page, head, key);
    const float scale = quantize(floats, p->channels[side], from, to);
    memcpy(fv_page_at(p, FV_KEY_SCALES + side, page, head, key), &scale, sizeof scale);
    if (words)
        fv_interleaved_write(p, side, page, head, key, 1, to);
}

/* Rotated, and then where they belong. */
static void to_i4(const fv_pages *p, int side, const fv_converter *floats, const void *from, float *row, int32_t page,
                  int64_t head, int64_t key) {
    const int64_t n = p->channels[side], group = p->part[side].group;
    if (from != row)
        fv_convert_to_floats(floats, n, from, row);
    fv_i4_rotate(1, n, 0, row, n, row, n);
    fv_i4_pack(side == 0 ? FV_I4_KEY : FV_I4_VALUE, n, row, (uint32_t *)(void *)fv_page_at(p, side, page, head, key),
               side == 0 ? group : 1, (uint16_t *)(void *)fv_page_at(p, FV_KEY_SCALES + side, page, head, key), group);
}

void fv_quantize(const fv_pages *p, int side, const fv_converter *floats, const void *from, float *row, int32_t page,
                 int64_t head, int64_t key) {
    const fv_float_mode mode = fv_float_plain();
    if (p->dtype[side] == FOVEA_DTYPE_I4)
        to_i4(p, side, floats, from, row, page, head, key);
    else
        to_i8(p, side, floats, from, page, head, key);
    fv_float_mode_set(&mode);
}
