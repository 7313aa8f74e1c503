/* Kernels of few rows, which take keys and values as they lie: part of kernels.h, which has the words of their contracts. */
#ifndef FV_THIN_H
#define FV_THIN_H

/* dot: the scores of few rows from keys as they lie, of the element type in the operation's name, unpacked: for i < rows, j < keys
 *   s[i*lds + j] = chain over t ascending: acc = fma(q[t*stride + i], k[j][t], acc), acc = +0, t < channels
 * stride = fv_dot_stride(rows): rows interleaved, those past the last any numbers.
 *
 * In rows, k[j][t] is k[j*ldk + t]. In lanes, bfloat16 only, keys lie in groups of FV_KEY_GROUP, ldk apart, as words of 4 bytes, w elements,
 * [word][FV_KEY_GROUP]: k[j][t] is element t % w of word t / w. The first key has place first in its group, 0 or FV_LANES, and its
 * first word is at k. What is behind the last channel of a key is 0. Groups are read whole.
 *
 * Columns of s past the last key, up to a multiple of FV_LANES, are written, too: as for a key of zeros, in lanes as for what lies
 * there. */
enum { FV_DOT_ROWS = 8, FV_KEY_GROUP = 32 };
/* Elements from the beginning of a group to channel t of the key at a place of it, words having w elements. */
static inline int64_t fv_lane_of(int64_t place, int64_t t, int64_t w) {
    return (t / w * FV_KEY_GROUP + place) * w + t % w;
}
typedef struct fv_dot_args {
    int64_t rows, keys, channels; /* rows: 1 to FV_DOT_ROWS; keys, channels >= 1 */
    const float *q;
    const void *k;
    int64_t ldk; /* to the next key, in lanes to the next group */
    int lanes, first;
    float *s;
    int64_t lds;
    float *row_max; /* as in fv_epilogue, with accumulate_max: NULL, or keys is a multiple of FV_LANES */
    int accumulate_max;
    /* Prefetched into the second-level cache meanwhile, at the pace of keys; next NULL: nothing. */
    const void *next, *next_end;
} fv_dot_args;
static inline int64_t fv_dot_stride(int64_t rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : FV_DOT_ROWS; }
typedef void fv_dot_f32_fn(const fv_dot_args *args);
typedef fv_dot_f32_fn fv_dot_bf16_fn;
typedef fv_dot_f32_fn fv_dot_f16_fn;

#endif
