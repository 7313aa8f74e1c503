/* int8 keys, and the rows that are multiplied with them. Part of kernels.h, which defines the terms. Each key and each
 * value has a float32 scale.
 *
 * Scores are exact sums of integers: the row of a query becomes integers of 15 bits and a scale first. With q the
 * scaled query, and all rounding by the caller's mode, as elsewhere:
 *
 *   top     = max of |q[t]|
 *   Q[t]    = rint(q[t] * (16319 / top)), no further than 16319 from 0 (only a mode other than nearest goes there)
 *   q_scale = top / 16319
 *             all 0 where top < 2^-112; where a q[t] is NaN or infinite, all Q are 0 and q_scale is NaN
 *   I       = sum of Q[t] * k[t], an integer
 *   s       = I * (q_scale * k_scale): I to float32, the product of both scales, and their product, each rounded
 *
 * No sum overflows 32 bits, in any order and of any int8, -128 too: FV_I8_CHANNELS * 16319 * 128 < 2^31. So it has the
 * same bits on every tier, whatever units multiply. With values, weights are multiplied by scales first. */
#ifndef FV_INT8_H
#define FV_INT8_H

enum {
    FV_I8_CHANNELS = 1024, /* at most, of a row of keys */
    FV_I8_MOST = 16319     /* |Q|: 128 * 127 + 63 */
};

/* Four channels of a row of Q, for every kind of unit: words of two int16, and Q = 128 * high + low, high and low
 * being int8. */
typedef struct fv_i8_word {
    int16_t even[2], odd[2]; /* channels 0 and 2, 1 and 3 */
    int8_t high[4], low[4];
} fv_i8_word;

/* A row of A of the kind i16, counted in words: its scale, the sum of its Q, and words of blocks of 16 channels, those
 * past the last are 0. */
typedef struct fv_i8_row {
    float scale;
    int32_t sum;
    int32_t unused[2];
    fv_i8_word word[];
} fv_i8_row;
_Static_assert(sizeof(fv_i8_row) == sizeof(fv_i8_word), "what begins a row takes a word's place");

static inline int64_t fv_i8_row_words(int64_t channels) { return 1 + (channels + 15) / 16 * 4; }

static inline const fv_i8_row *fv_i8_row_of(const fv_rows *a, int64_t i) {
    return (const fv_i8_row *)(const void *)((const fv_i8_word *)a->data + i * a->stride);
}

/* Makes rows of Q from q[i*ldq + t], fv_i8_row_words(channels) words apart. */
void fv_i8_rows(int64_t rows, int64_t channels, const float *q, int64_t ldq, fv_i8_word *to);

#endif
