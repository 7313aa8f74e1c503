/* 4-bit keys and values: rotation, integers, and layout in pages. Part of kernels.h, which defines the terms.
 *
 * Rows of keys and values are rotated before they become integers. n = 2^m is the largest power of two that divides
 * their channels. In each block of n channels, for h = 1, 2, 4 ... n / 2, in float32:
 *
 *   x[t], x[t + h] = x[t] + x[t + h], x[t] - x[t + h]    for each t with t & h = 0, counted from the block's first
 *   x[t]           = x[t] * 2^-e                          at last; e = m / 2 rounded down for keys and values
 *
 * Scaled queries are rotated likewise, with e = m / 2 rounded up: q.k stays what it was. So is O, before out = O * R,
 * which turns it back; until then O has rotated channels, in states, too.
 *
 * Groups of FV_I4_GROUP channels, the last one shorter, share a scale. With x the rotated row, all to nearest even:
 *
 *   scale   = float16(max of |x[t]| / 7)
 *   w[t]    = rint(x[t] * (1 / scale)), no further than 7 from 0; 0 where scale is 0
 *             all w are 0 and scale is NaN where scale would be infinite or an x[t] is NaN
 *
 * Scores are those of a linear map with weights in groups (groups.h), kind i16 or i8x2, most FV_I8_MOST: its channels
 * are the steps, its keys the columns, its acc the score.
 *
 * Values: o[t] = chain over the attended keys ascending, from +0: acc = fma(p * scale, w[t], acc), p * scale being
 * rounded. */
#ifndef FV_INT4_H
#define FV_INT4_H

enum {
    FV_I4_GROUP = 32,
    FV_I4_MOST = 7,
    FV_I4_KEYS = 64 /* of a panel of a page: the products of all tiers take as many at once */
};

/* A row consists of words of 4 bytes, w + 8 of 8 channels each: four in the lower halves of its bytes, four others in
 * the upper halves.
 *   KEY     word i has channels 8 i to 8 i + 7: that of a panel of the format i4g, which has FV_I4_KEYS columns, so the
 *           next word of a key is as many words further
 *   VALUE   words are contiguous. The lower halves have the first half of the channels, the upper ones the second
 * Scales, of keys and of values, are in the order of words of keys: in panels of FV_I4_KEYS rows, [groups][FV_I4_KEYS]
 * float16. So pages have a multiple of FV_I4_KEYS positions, and values are rows without gaps. */
typedef enum fv_i4_order { FV_I4_KEY, FV_I4_VALUE } fv_i4_order;

static inline int64_t fv_i4_words(fv_i4_order order, int64_t channels) {
    return order == FV_I4_KEY ? (channels + 15) / 16 * 2 : (channels + 7) / 8;
}

static inline int64_t fv_i4_groups(int64_t channels) { return (channels + FV_I4_GROUP - 1) / FV_I4_GROUP; }

/* Rotates rows of at most FV_I8_CHANNELS channels, with m / 2 rounded up or down; y may be x, with ldy == ldx. The
 * payload of a NaN is left open. */
void fv_i4_rotate(int64_t rows, int64_t channels, int up, const float *x, int64_t ldx, float *y, int64_t ldy);

/* Makes integers of a rotated row: word i goes to to[i * step], the scale of group g to scale[g * scale_step]. The
 * caller's mode rounds to nearest and flushes nothing. */
void fv_i4_pack(fv_i4_order order, int64_t channels, const float *x, uint32_t *to, int64_t step, uint16_t *scale,
                int64_t scale_step);

#endif
