/* Rows of x as integers (groups.h) on scalar: the definition. */
#include "kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LEAST = 0x07800000, INFINITE = 0x7f800000 }; /* bits of 2^-112 and of infinity */

static int nearest(float v, int most) {
    const int whole = (int)v;
    const float left = v - (float)whole;
    const int odd = whole & 1, up = left > 0.5f || (left == 0.5f && odd), down = left < -0.5f || (left == -0.5f && odd);
    const int to = whole + up - down;
    return to > most ? most : to < -most ? -most : to;
}

static void quantize_group(int64_t n, fv_kind kind, int most, const float *x, uint32_t *to) {
    fv_group_row *const row = (fv_group_row *)(void *)to;
    int8_t *const bytes = (int8_t *)row->word;
    int32_t top = 0;
    for (int64_t t = 0; t < n; t++) {
        int32_t bits;
        memcpy(&bits, x + t, sizeof bits);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    memset(to, 0, (size_t)fv_group_row_words(kind, n) * sizeof *to);
    if (top < LEAST || top >= INFINITE) {
        row->scale = top < LEAST ? 0.0f : NAN;
        return;
    }
    float largest;
    memcpy(&largest, &top, sizeof largest);
    row->scale = largest / (float)most;
    const float factor = (float)most / largest;
    for (int64_t t = 0; t < n; t++) {
        const int X = nearest(x[t] * factor, most), high = (X + 64) >> 7;
        row->sum += X;
        if (kind == FV_KIND_i16) {
            ((int16_t *)(void *)bytes)[t / 4 * 4 + t % 2 * 2 + t % 4 / 2] = (int16_t)X;
        } else if (kind == FV_KIND_i8) {
            bytes[t] = (int8_t)X;
        } else {
            bytes[t / 16 * 32 + t % 16] = (int8_t)high;
            bytes[t / 16 * 32 + 16 + t % 16] = (int8_t)(X - 128 * high);
        }
    }
}

void fv_quantize_i8_1x1_scalar(int64_t rows, int64_t n, int64_t group, fv_kind kind, int most, const float *x,
                               int64_t ldx, uint32_t *to) {
    assert(rows >= 1 && n >= 1 && group >= 1 && group <= FV_I8_CHANNELS && (n <= group || group % 16 == 0));
    assert(most == FV_Q8_MOST || (most == FV_I8_MOST && kind != FV_KIND_i8));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            quantize_group(count, kind, most, x + i * ldx + t, to);
            to += fv_group_row_words(kind, count);
        }
}
