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

static void quantise_group(int64_t n, int most, const float *x, fv_i8_word *to) {
    fv_i8_row *const row = (fv_i8_row *)(void *)to;
    int32_t top = 0;
    for (int64_t t = 0; t < n; t++) {
        int32_t bits;
        memcpy(&bits, x + t, sizeof bits);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    memset(to, 0, (size_t)fv_i8_row_words(n) * sizeof *to);
    if (top < LEAST || top >= INFINITE) {
        row->scale = top < LEAST ? 0.0f : NAN;
        return;
    }
    float largest;
    memcpy(&largest, &top, sizeof largest);
    row->scale = largest / (float)most;
    const float factor = (float)most / largest;
    for (int64_t t = 0; t < n; t++) {
        const int X = nearest(x[t] * factor, most), high = most > FV_Q8_MOST ? (X + 64) >> 7 : 0;
        fv_i8_word *word = row->word + t / 4;
        row->sum += X;
        (t % 2 ? word->odd : word->even)[t % 4 / 2] = (int16_t)X;
        word->high[t % 4] = (int8_t)high;
        word->low[t % 4] = (int8_t)(X - 128 * high);
    }
}

void fv_quantise_i8_1x1_scalar(int64_t rows, int64_t n, int64_t group, int most, const float *x, int64_t ldx,
                               fv_i8_word *to) {
    assert(rows >= 1 && n >= 1 && group >= 1 && group <= FV_I8_CHANNELS && (n <= group || group % 16 == 0));
    assert(most == FV_I8_MOST || most == FV_Q8_MOST);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            quantise_group(count, most, x + i * ldx + t, to);
            to += fv_i8_row_words(count);
        }
}
