/* softmax: scores s of one segment to p = exp(s - m), with their maximum m and sum l a row (kernels.h has the contract).
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

static inline const fv_keybits *softmax_bits(const fv_softmax_f32_args *x, int64_t row) {
    return x->bits ? x->bits + row * x->bits_step : NULL;
}

/* Turns count vectors of scores into p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_weigh(const float *s, float *p, uint64_t attended,
                                                                const int all, vf base, vf *sum, const int no_underflow,
                                                                const int count) {
    vf x[SIDE];
    for (int g = 0; g < count; g++)
        x[g] = v_sub(v_load(s + g * FV_W), base);
    v_exp_each(x, count, no_underflow);
    for (int g = 0; g < count; g++) {
        if (!all)
            x[g] = v_select(softmax_mask(attended, g), x[g], v_set1(-0.0f));
        v_store(p + g * FV_W, x[g]);
        sum[g % GROUP] = v_add(sum[g % GROUP], x[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_weigh_some(int64_t key, const float *s, float *p,
                                                                     const fv_keybits *bits, vf base, vf *sum,
                                                                     const int no_underflow, const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_weigh(s + key, p + key, every, 1, base, sum, no_underflow, count);
    else if (attended)
        softmax_weigh(s + key, p + key, attended, 0, base, sum, no_underflow, count);
    else
        for (int g = 0; g < count; g++) {
            v_store(p + key + g * FV_W, v_set1(-0.0f));
            sum[g % GROUP] = v_add(sum[g % GROUP], v_set1(-0.0f));
        }
}

/* p and lanes of the sum of row i. Its maximum is in l. */
static inline __attribute__((always_inline)) void softmax_exp(const fv_softmax_f32_args *x, int64_t i,
                                                              const int no_underflow) {
    const float *s = x->s + i * x->lds;
    float *p = x->p + i * x->ldp, *lanes = x->lanes + i * FV_LANES;
    const fv_keybits *bits = softmax_bits(x, i);
    const vf base = v_set1(x->l[i]);
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = v_set1(0.0f);
    int64_t key = x->begin;
    for (; key + TOGETHER <= x->end; key += TOGETHER)
        softmax_weigh_some(key, s, p, bits, base, sum, no_underflow, SIDE);
    for (; key < x->end; key += FV_LANES)
        softmax_weigh_some(key, s, p, bits, base, sum, no_underflow, GROUP);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, sum[g]);
}

static inline void softmax_store(float *to, int64_t rows, vf x) {
    if (rows < FV_W)
        v_store_n(to, rows, x);
    else
        v_store(to, x);
}

static inline __attribute__((always_inline)) void softmax_exps(const fv_softmax_f32_args *x) {
    for (int64_t i = 0; i < x->rows && x->no_underflow; i++)
        softmax_exp(x, i, 1);
    for (int64_t i = 0; i < x->rows && !x->no_underflow; i++)
        softmax_exp(x, i, 0);
}

static inline __attribute__((always_inline)) void softmax_all(const fv_softmax_f32_args x) {
    for (int64_t i = 0; i < x.rows && x.row_max_end < x.end; i++)
        softmax_row_max(x.row_max_end, x.end, x.s + i * x.lds, softmax_bits(&x, i), x.lanes + i * FV_LANES,
                        x.row_max_end > x.begin);
    /* What is taken from the scores: their maxima, but no infinity where nothing is attended. l holds it until the sums
     * are known. */
    for (int64_t i = 0; i < x.rows; i += FV_W) {
        const vf row_max = lanes_tree_n(x.lanes + i * FV_LANES, x.rows - i, 1);
        softmax_store(x.m + i, x.rows - i, row_max);
        softmax_store(x.l + i, x.rows - i, v_max(v_set1(-FLT_MAX), row_max));
    }
    softmax_exps(&x);
    for (int64_t i = 0; i < x.rows; i += FV_W)
        softmax_store(x.l + i, x.rows - i, lanes_tree_n(x.lanes + i * FV_LANES, x.rows - i, 0));
}

/* The same where all of so many groups of FV_LANES keys are attended: the compiler knows the ends of all loops. */
static inline __attribute__((always_inline)) void softmax_groups(fv_softmax_f32_args x, const int groups) {
    x.s += x.begin;
    x.p += x.begin;
    x.begin = 0;
    x.end = x.row_max_end = groups * FV_LANES;
    x.bits = NULL;
    x.no_underflow = x.no_underflow && groups > 4; /* few ask for a few groups: less code */
    softmax_all(x);
}

void FV_NAME(const fv_softmax_f32_args *x) {
    assert(x->rows >= 1 && (x->rows == 1 || (x->lds >= x->end - x->begin && x->ldp >= x->end - x->begin)));
    assert(0 <= x->begin && x->begin < x->end && x->end <= FV_SEGMENT);
    assert(x->begin % FV_LANES == 0 && x->end % FV_LANES == 0);
    assert(x->p != x->s || x->ldp == x->lds);
    assert(!x->bits || x->bits_step >= 0);
    assert(x->begin <= x->row_max_end && x->row_max_end <= x->end && x->row_max_end % FV_LANES == 0);
    if (x->bits) {
        softmax_all(*x);
        return;
    }
    switch (x->row_max_end < x->end ? 0 : (x->end - x->begin) / FV_LANES) {
    case 1: softmax_groups(*x, 1); break;
    case 2: softmax_groups(*x, 2); break;
    case 3: softmax_groups(*x, 3); break;
    case 4: softmax_groups(*x, 4); break;
    case FV_SEGMENT / FV_LANES: softmax_groups(*x, FV_SEGMENT / FV_LANES); break;
    default: softmax_all(*x); break;
    }
}
