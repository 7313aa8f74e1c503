/* Rows of 4-bit keys and values (int4.h). Plain C in loops that compilers make vectors of: it runs once for each row.
 *
 * A stage of a rotation with a small stride reads neighbours, and writes sums before differences. So those of the next
 * stride are neighbours, too, and after the last one each channel is where it was. */
#include "kernels.h"
#include "simd/half_scalar.h"

#include <assert.h>
#include <string.h>

enum { PART = 64 }; /* channels of which strides are small */

static __attribute__((noinline)) void rotate_stage(int64_t n, const float *restrict x, float *restrict y) {
    for (int64_t t = 0; t < n / 2; t++) {
        y[t] = x[2 * t] + x[2 * t + 1];
        y[t + n / 2] = x[2 * t] - x[2 * t + 1];
    }
}

static void rotate_part(int64_t n, float *x) {
    float other[PART], *from = x, *to = other;
    for (int64_t h = 1; h < n; h *= 2) {
        float *const before = from;
        rotate_stage(n, from, to);
        from = to;
        to = before;
    }
    if (from != x)
        memcpy(x, from, (size_t)n * sizeof *x);
}

static void rotate_block(int64_t n, float *x) {
    const int64_t part = n < PART ? n : PART;
    for (int64_t t = 0; t < n; t += part)
        rotate_part(part, x + t);
    for (int64_t h = part; h < n; h *= 2)
        for (int64_t t = 0; t < n; t += 2 * h)
            for (int64_t i = t; i < t + h; i++) {
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

void fv_i4_rotate(int64_t rows, int64_t channels, int up, const float *x, int64_t ldx, float *y, int64_t ldy) {
    const int64_t n = channels & -channels;
    float factor = 1.0f;
    assert(rows >= 1 && channels >= 1 && channels <= FV_I8_CHANNELS);
    for (int64_t left = up ? 2 * n : n; left >= 4; left /= 4)
        factor *= 0.5f;
    for (int64_t i = 0; i < rows; i++) {
        float *const row = y + i * ldy;
        memmove(row, x + i * ldx, (size_t)channels * sizeof *x);
        for (int64_t first = 0; first < channels; first += n)
            rotate_block(n, row + first);
        for (int64_t t = 0; t < channels; t++)
            row[t] *= factor;
    }
}

/* The scale of a group, a float16, and w + 8 of its channels. */
static uint16_t quantize(const float x[FV_I4_GROUP], uint8_t w[FV_I4_GROUP]) {
    enum { INFINITE = 0x7c00, QUIET = 0x7e00, MAGNITUDE = 0x7fffffff, ZERO = 8 };
    uint32_t most = 0; /* as integers magnitudes have their order, and NaN come last */
    for (int t = 0; t < FV_I4_GROUP; t++) {
        const uint32_t bits = half_bits(x[t]) & MAGNITUDE;
        most = bits > most ? bits : most;
    }
    const uint16_t scale = half_narrow_f16(half_float(most) / FV_I4_MOST);
    memset(w, ZERO, FV_I4_GROUP);
    if (scale == 0 || scale >= INFINITE)
        return scale == 0 ? 0 : QUIET;
    const float factor = 1.0f / half_widen_f16(scale), shift = 0x1.8p23f; /* where the last bit of a float is 1 */
    for (int t = 0; t < FV_I4_GROUP; t++) {
        const int32_t nearest = (int32_t)(half_bits(x[t] * factor + shift) - half_bits(shift));
        w[t] = (uint8_t)(ZERO + (nearest > FV_I4_MOST ? FV_I4_MOST : nearest < -FV_I4_MOST ? -FV_I4_MOST : nearest));
    }
    return scale;
}

void fv_i4_pack(fv_i4_order order, int64_t channels, const float *x, uint32_t *to, int64_t step, uint16_t *scale,
                int64_t scale_step) {
    uint8_t w[FV_I8_CHANNELS];
    const int64_t words = fv_i4_words(order, channels);
    const int64_t next = order == FV_I4_KEY ? 8 : 4, upper = order == FV_I4_KEY ? 4 : 4 * words;
    assert(channels >= 1 && channels <= FV_I8_CHANNELS);
    for (int64_t t = 0; t < channels; t += FV_I4_GROUP, scale += scale_step) {
        float group[FV_I4_GROUP] = {0};
        memcpy(group, x + t, (size_t)(channels - t < FV_I4_GROUP ? channels - t : FV_I4_GROUP) * sizeof *x);
        *scale = quantize(group, w + t);
    }
    for (int64_t i = 0; i < words; i++, to += step) {
        uint32_t low, high;
        memcpy(&low, w + i * next, sizeof low);
        memcpy(&high, w + i * next + upper, sizeof high);
        low |= high << 4;
        memcpy(to, &low, sizeof low);
    }
}
