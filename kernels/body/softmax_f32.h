/* softmax: scores of one segment to p = exp(s - m), with their maximum m and sum l a row (kernels.h has the contract).
 * A file that includes this one defines FV_SIDE.
 *
 * The maxima of most columns come with their scores: the gemm takes them as it stores its tiles, from registers, where
 * units that do not multiply are idle. What is left to find, where there is a mask or rows do not see all of a panel,
 * is found first.
 *
 * The FV_LANES virtual lanes of a row are GROUP vectors, so a group of FV_LANES keys adds to the same lanes whatever
 * the width of a vector; FV_SIDE vectors go through exp side by side. A whole segment, the common case, has its own
 * loops, whose ends the compiler knows, and so have rows so short that it is their ends that take the time. Where bits
 * tell what is attended, SIDE vectors whose keys all are need no masks, and those of which none is no exp.
 *
 * Bound: v_exp.h's operations plus one subtraction, one addition, one load and a store a vector, and no comparison
 * where all p are normal (fovea-bench --filter kernel/softmax). Cycles, and what lost: docs/measurements.md,
 * "softmax_f32.h".
 */
#include <float.h>

#include "lanes_tree.h"
#include "v_exp.h"

enum { SIDE = FV_SIDE, TOGETHER = SIDE * FV_W };
_Static_assert(TOGETHER <= 64, "their bits are one word");
_Static_assert(SIDE % GROUP == 0, "whole groups: keys meet their lanes");

/* The lowest n bits, 1 <= n <= 64. */
static inline uint64_t softmax_lowest(int n) { return ~(uint64_t)0 >> (64 - n); }

/* Bits of vector g. */
static inline vm softmax_mask(uint64_t attended, int g) {
    return v_bits((uint32_t)(attended >> (g * FV_W)) & (uint32_t)softmax_lowest(FV_W));
}

/* The attended ones of count keys from key on, at most 64; key is a multiple of FV_LANES. */
static inline uint64_t softmax_attended(const fv_keybits *bits, int64_t key, int count) {
    const int from = (int)(key % 64);
    uint64_t word = bits->word[key / 64] >> from;
    if (from + count > 64)
        word |= bits->word[key / 64 + 1] << (64 - from);
    return word & softmax_lowest(count);
}

/* Raises so many chains of maxima, in turn, to count vectors of scores. */
static inline __attribute__((always_inline)) void softmax_fold(const float *s, uint64_t attended, const int all,
                                                               vf *row_max, const int chains, const int count) {
    for (int g = 0; g < count; g++) {
        vf x = v_load(s + g * FV_W);
        if (!all)
            x = v_select(softmax_mask(attended, g), x, v_set1(-INFINITY));
        row_max[g % chains] = v_max(x, row_max[g % chains]);
    }
}

static inline __attribute__((always_inline)) void softmax_fold_some(int64_t key, const float *s, const fv_keybits *bits,
                                                                    vf *row_max, const int chains, const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_fold(s + key, every, 1, row_max, chains, count);
    else if (attended)
        softmax_fold(s + key, attended, 0, row_max, chains, count);
}

/* Raises the maxima of a row to those of its columns [begin, end), or begins them. */
static inline __attribute__((always_inline)) void
softmax_row_max(int64_t begin, int64_t end, const float *s, const fv_keybits *bits, float *lanes, int accumulate_max) {
    vf row_max[SIDE];
    for (int g = 0; g < SIDE; g++)
        row_max[g] = accumulate_max && g < GROUP ? v_load(lanes + g * FV_W) : v_set1(-INFINITY);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_fold_some(key, s, bits, row_max, SIDE, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_fold_some(key, s, bits, row_max, GROUP, GROUP);
    for (int g = GROUP; g < SIDE; g++)
        row_max[g % GROUP] = v_max(row_max[g], row_max[g % GROUP]);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, row_max[g]);
}

/* Replaces count vectors of scores by p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_replace(float *s, uint64_t attended, const int all, vf base,
                                                                  vf *sum, const int no_underflow, const int count) {
    vf p[SIDE];
    for (int g = 0; g < count; g++)
        p[g] = v_sub(v_load(s + g * FV_W), base);
    v_exp_each(p, count, no_underflow);
    for (int g = 0; g < count; g++) {
        if (!all)
            p[g] = v_select(softmax_mask(attended, g), p[g], v_set1(-0.0f));
        v_store(s + g * FV_W, p[g]);
        sum[g % GROUP] = v_add(sum[g % GROUP], p[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_replace_some(int64_t key, float *s, const fv_keybits *bits,
                                                                       vf base, vf *sum, const int no_underflow,
                                                                       const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_replace(s + key, every, 1, base, sum, no_underflow, count);
    else if (attended)
        softmax_replace(s + key, attended, 0, base, sum, no_underflow, count);
    else
        for (int g = 0; g < count; g++) {
            v_store(s + key + g * FV_W, v_set1(-0.0f));
            sum[g % GROUP] = v_add(sum[g % GROUP], v_set1(-0.0f));
        }
}

/* Exp and lanes of the sum of columns [begin, end) of a row. */
static inline __attribute__((always_inline)) void softmax_exp(int64_t begin, int64_t end, float *s,
                                                              const fv_keybits *bits, float base,
                                                              const int no_underflow, float *lanes) {
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = v_set1(0.0f);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_replace_some(key, s, bits, v_set1(base), sum, no_underflow, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_replace_some(key, s, bits, v_set1(base), sum, no_underflow, GROUP);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, sum[g]);
}

static inline void softmax_store(float *to, int64_t rows, vf x) {
    if (rows < FV_W)
        v_store_n(to, rows, x);
    else
        v_store(to, x);
}

/* Rows of scores, whose bits are bits_step apart, or one for all. */
typedef struct softmax_rows {
    int64_t count, begin, end;
    float *s;
    int64_t lds;
    const fv_keybits *bits;
    int64_t bits_step, row_max_end;
    int no_underflow;
    float *lanes, *m, *l;
} softmax_rows;

static inline const fv_keybits *softmax_bits(const softmax_rows *x, int64_t row) {
    return x->bits ? x->bits + row * x->bits_step : NULL;
}

static inline __attribute__((always_inline)) void softmax_exps(const softmax_rows *x) {
    for (int64_t i = 0; i < x->count && x->no_underflow; i++)
        softmax_exp(x->begin, x->end, x->s + i * x->lds, softmax_bits(x, i), x->l[i], 1, x->lanes + i * FV_LANES);
    for (int64_t i = 0; i < x->count && !x->no_underflow; i++)
        softmax_exp(x->begin, x->end, x->s + i * x->lds, softmax_bits(x, i), x->l[i], 0, x->lanes + i * FV_LANES);
}

static inline __attribute__((always_inline)) void softmax_all(const softmax_rows x) {
    for (int64_t i = 0; i < x.count && x.row_max_end < x.end; i++)
        softmax_row_max(x.row_max_end, x.end, x.s + i * x.lds, softmax_bits(&x, i), x.lanes + i * FV_LANES,
                        x.row_max_end > x.begin);
    /* What is taken from the scores: their maxima, but no infinity where nothing is attended. l has it until the sums
     * are row_max_end. */
    for (int64_t i = 0; i < x.count; i += FV_W) {
        const vf row_max = lanes_tree_n(x.lanes + i * FV_LANES, x.count - i, 1);
        softmax_store(x.m + i, x.count - i, row_max);
        softmax_store(x.l + i, x.count - i, v_max(v_set1(-FLT_MAX), row_max));
    }
    softmax_exps(&x);
    for (int64_t i = 0; i < x.count; i += FV_W)
        softmax_store(x.l + i, x.count - i, lanes_tree_n(x.lanes + i * FV_LANES, x.count - i, 0));
}

/* The same where all of so many groups of FV_LANES keys are attended: the compiler knows the ends of all loops. */
static inline __attribute__((always_inline)) void softmax_groups(softmax_rows all, const int groups) {
    all.s += all.begin;
    all.begin = 0;
    all.end = all.row_max_end = groups * FV_LANES;
    all.bits = NULL;
    all.no_underflow = all.no_underflow && groups > 4; /* few ask for a few groups: less code */
    softmax_all(all);
}

void FV_NAME(int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,
             int64_t row_max_end, int no_underflow, float *lanes, float *m, float *l) {
    assert(rows >= 1 && (rows == 1 || lds >= end - begin));
    assert(0 <= begin && begin < end && end <= FV_SEGMENT && begin % FV_LANES == 0 && end % FV_LANES == 0);
    assert(!bits || bits_step >= 0);
    assert(begin <= row_max_end && row_max_end <= end && row_max_end % FV_LANES == 0);
    const softmax_rows all = {rows, begin, end, s, lds, bits, bits_step, row_max_end, no_underflow, lanes, m, l};
    if (bits) {
        softmax_all(all);
        return;
    }
    switch (row_max_end < end ? 0 : (end - begin) / FV_LANES) {
    case 1: softmax_groups(all, 1); break;
    case 2: softmax_groups(all, 2); break;
    case 3: softmax_groups(all, 3); break;
    case 4: softmax_groups(all, 4); break;
    case FV_SEGMENT / FV_LANES: softmax_groups(all, FV_SEGMENT / FV_LANES); break;
    default: softmax_all(all); break;
    }
}
