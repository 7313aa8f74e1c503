/* The rows of queries as integers, for products with int8 keys (int8.h). Plain C in loops that compilers make vectors
 * of: it runs once for each row. */
#include "kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LEAST = 0x07800000, INFINITE = 0x7f800000 }; /* bits of 2^-112 and of infinity */

/* Q of a row, and what it is scaled by. */
static float quantize(int64_t channels, const float *q, int16_t *to) {
    int32_t most = 0;
    for (int64_t t = 0; t < channels; t++) {
        int32_t bits;
        memcpy(&bits, q + t, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    if (most < LEAST || most >= INFINITE) {
        memset(to, 0, (size_t)channels * sizeof *to);
        return most < LEAST ? 0.0f : NAN;
    }
    float top;
    memcpy(&top, &most, sizeof top);
    const float factor = FV_I8_MOST / top, shift = 0x1.8p23f; /* where the last bit of a float is 1 */
    int32_t zero;
    memcpy(&zero, &shift, sizeof zero);
    for (int64_t t = 0; t < channels; t++) {
        const float shifted = q[t] * factor + shift;
        int32_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        to[t] = (int16_t)(bits - zero);
    }
    for (int64_t t = 0; t < channels; t++) {
        to[t] = to[t] < FV_I8_MOST ? to[t] : FV_I8_MOST;
        to[t] = to[t] > -FV_I8_MOST ? to[t] : -FV_I8_MOST;
    }
    return top / FV_I8_MOST;
}

void fv_i8_rows(int64_t rows, int64_t channels, const float *q, int64_t ldq, fv_i8_word *to) {
    assert(rows >= 1 && channels >= 1 && channels <= FV_I8_CHANNELS);
    const int64_t count = fv_i8_row_words(channels) - 1;
    for (int64_t i = 0; i < rows; i++, to += 1 + count) {
        int16_t row[FV_I8_CHANNELS];
        int8_t high[FV_I8_CHANNELS], low[FV_I8_CHANNELS];
        fv_i8_row *const made = (fv_i8_row *)(void *)to;
        memset(row, 0, (size_t)(4 * count) * sizeof *row);
        *made = (fv_i8_row){.scale = quantize(channels, q + i * ldq, row)};
        for (int64_t t = 0; t < channels; t++)
            made->sum += row[t];
        for (int64_t t = 0; t < 4 * count; t++) {
            high[t] = (int8_t)((row[t] + 64) >> 7);
            low[t] = (int8_t)(row[t] - 128 * high[t]);
        }
        for (int64_t w = 0; w < count; w++) {
            const int16_t *four = row + 4 * w;
            fv_i8_word *word = to + 1 + w;
            *word = (fv_i8_word){{four[0], four[2]}, {four[1], four[3]}, {0}, {0}};
            memcpy(word->high, high + 4 * w, sizeof word->high);
            memcpy(word->low, low + 4 * w, sizeof word->low);
        }
    }
}
