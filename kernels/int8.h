/* Kernels of int8 keys and values: part of kernels.h, which has the words of their contracts. One float32 scale for each key and each
 * value says what its integers stand for.
 *
 * Scores are exact sums of integers: the row of a query, too, becomes integers of 15 bits and a scale, before. With q the row as it
 * goes into dot, and all rounding by the caller's mode, as elsewhere:
 *
 *   top     = max of |q[t]|
 *   Q[t]    = rint(q[t] * (16319 / top)), no further than 16319 from 0 (only a mode other than nearest goes there)
 *   q_scale = top / 16319
 *             all 0 where top < 2^-112; where a q[t] is NaN or infinite, all Q are 0 and q_scale is NaN
 *   I       = sum of Q[t] * k[t], an integer
 *   s       = I * (q_scale * k_scale): I to float32, the product of both scales, and their product, each rounded
 *
 * No sum overflows 32 bits, in any order and of any int8, -128 too: FV_I8_CHANNELS * 16319 * 128 < 2^31. So it has the same bits on
 * every tier, whatever units multiply. Values are gemm_thin's: the caller multiplies weights and scales first. */
#ifndef FV_INT8_H
#define FV_INT8_H

enum {
    FV_I8_CHANNELS = 1024, /* at most, of a row of keys */
    FV_I8_MOST = 16319     /* |Q|: 128 * 127 + 63 */
};

/* Four channels of a row of Q as every unit wants them: words of two int16, and Q = 128 * high + low, high and low being int8. */
typedef struct fv_i8_word {
    int16_t even[2], odd[2]; /* channels 0 and 2, 1 and 3 */
    int8_t high[4], low[4];
} fv_i8_word;

/* Words of a row of so many channels: blocks of 16 channels, those past the last 0. */
static inline int64_t fv_i8_words(int64_t channels) { return (channels + 15) / 16 * 4; }

/* The rows of one dot_i8, q[i*ldq + t]: words[w*fv_dot_stride(rows) + i] has channels 4w to 4w + 3 of row i, for
 * w < fv_i8_words(channels), rows past the last being zeros; scales[i] and sums[i] are the q_scale and the sum of Q of row i < rows. */
void fv_dot_i8_queries(int64_t rows, int64_t channels, const float *q, int64_t ldq, fv_i8_word *words, float *scales,
                       int32_t *sums);

/* dot of int8: s[i*lds + j] as above, of Q[i] and k[j][t], t < channels, keys being in lanes (fv_dot_args; what is behind the last
 * channel may be anything). Columns of s past the last key, up to a multiple of FV_LANES, are written as for what lies there, with the scale 0. */
typedef struct fv_dot_i8_args {
    int64_t rows, keys, channels; /* rows: 1 to FV_DOT_ROWS; keys >= 1; channels: 1 to FV_I8_CHANNELS */
    const fv_i8_word *q;          /* as fv_dot_i8_queries() made them, with the next two */
    const float *q_scales;        /* [rows] */
    const int32_t *q_sums;        /* [rows] */
    const int8_t *k;
    int64_t ldk; /* to the next group */
    int first;
    const float *k_scales; /* [keys] */
    float *s;
    int64_t lds;
    float *row_max; /* this and all below as in fv_dot_args */
    int accumulate_max;
    const void *next, *next_end;
} fv_dot_i8_args;
typedef void fv_dot_i8_fn(const fv_dot_i8_args *args);

#endif
