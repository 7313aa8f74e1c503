/* softmax: scores of one segment to p = exp(s - m), with their maximum m and sum l a row (kernels.h has the contract).
 * A file that includes this one defines FV_SIDE and, where p that are all normal numbers have a pipeline,
 * FV_SOFTMAX_PIPELINE, the file it is in.
 *
 * The maxima of most columns come with their scores: the gemm takes them as it stores its tiles, from registers, where
 * units that do not multiply are idle. What is left to find, where there is a mask or rows do not see all of a panel,
 * is found first. On AMD family 26 model 2 (Zen 5) attention is 1.00 to 1.02 times as fast for it, on AVX2, where all
 * maxima were found first, as on AVX-512, where they were found beside the exp of rows before; but 0.98 to 1.01 where
 * causality or a window leaves no whole panel of at most 64 keys. On AMD family 25 model 17 (Zen 4) it is 1.00 to
 * 1.07 on AVX2, 0.99 to 1.015 on AVX-512 (with softmax_pipeline.h); on Intel it is not measured.
 *
 * The FV_LANES virtual lanes of a row are GROUP vectors, so a group of FV_LANES keys adds to the same lanes whatever
 * the width of a vector; FV_SIDE vectors go through exp side by side. A whole segment, the common case, has its own
 * loops, whose ends the compiler knows, and so have rows so short that it is their ends that take the time (32 rows of
 * 32 keys: 13 cycles for 16 of them instead of 16 on Intel family 6 model 207, within attention). Where bits tell what
 * is attended, SIDE vectors whose keys all are need no masks, and those of which none is no exp (causal 256 x 64: 4%
 * faster on AVX2, where a mask takes three operations, 1% on AVX-512). Lost, in cycles of AMD family 25 model 17: runs of
 * whole granules, found in the bits of each row (0.84 to 0.90 for 16 causal rows behind 128 keys and more, but 1.15 to
 * 1.8 behind none, 1.8 where a mask is scattered); ranges from the caller instead of bits (0.80 to 0.86, and 1.08 to
 * 1.18 behind none).
 *
 * Bound: v_exp.h's operations plus one subtraction, one addition, one load and a store a vector, and no comparison
 * where all p are normal (fovea-bench --filter kernel/softmax times that alone, of known maxima). On AMD family 25
 * model 17 (Zen 4), where the fma and mul of v_exp.h are 7 cycles for 16 keys and the rest has other units, AVX-512
 * takes 7.6 cycles by its pipeline, AVX2 9.8 (11.0 with SIDE 4; a pipeline of four vectors in assembly 9.2, as 26
 * operations on four units seldom go four at a time); with comparisons 9.0 and 12.7, on family 26 model 2 with a
 * pipeline 4.15 and 10.5. What follows is of kernels that compared, and found all maxima. On Intel's AVX-512 cores all
 * share two ports: 7.5; not measured. With an exp of one operation more, of 8 there, 9.2 were reached between the gemms
 * of 24 rows (family 6 model 207); FV_W rows transposed for one tree took 9.6 (on AVX2 15.9 instead of 14.8). Longer
 * chains of exp one after the other took 11.7 there, as the scheduler was full of operations that wait.
 */
#include <float.h>

#include "lanes_tree.h"
#include "v_exp.h"
#ifdef FV_SOFTMAX_PIPELINE
#include FV_SOFTMAX_PIPELINE
#endif

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
                                                               vf *highest, const int chains, const int count) {
    for (int g = 0; g < count; g++) {
        vf x = v_load(s + g * FV_W);
        if (!all)
            x = v_select(softmax_mask(attended, g), x, v_set1(-INFINITY));
        highest[g % chains] = v_max(x, highest[g % chains]);
    }
}

static inline __attribute__((always_inline)) void softmax_fold_some(int64_t key, const float *s, const fv_keybits *bits,
                                                                    vf *highest, const int chains, const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_fold(s + key, every, 1, highest, chains, count);
    else if (attended)
        softmax_fold(s + key, attended, 0, highest, chains, count);
}

/* Raises the maxima of a row to those of its columns [begin, end), or begins them. */
static inline __attribute__((always_inline)) void softmax_highest(int64_t begin, int64_t end, const float *s,
                                                                  const fv_keybits *bits, float *lanes, int raise) {
    vf highest[SIDE];
    for (int g = 0; g < SIDE; g++)
        highest[g] = raise && g < GROUP ? v_load(lanes + g * FV_W) : v_set1(-INFINITY);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_fold_some(key, s, bits, highest, SIDE, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_fold_some(key, s, bits, highest, GROUP, GROUP);
    for (int g = GROUP; g < SIDE; g++)
        highest[g % GROUP] = v_max(highest[g], highest[g % GROUP]);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, highest[g]);
}

/* Replaces count vectors of scores by p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_replace(float *s, uint64_t attended, const int all, vf base,
                                                                  vf *sum, const int normal, const int count) {
    vf p[SIDE];
    for (int g = 0; g < count; g++)
        p[g] = v_sub(v_load(s + g * FV_W), base);
    v_exp_each(p, count, normal);
    for (int g = 0; g < count; g++) {
        if (!all)
            p[g] = v_select(softmax_mask(attended, g), p[g], v_set1(-0.0f));
        v_store(s + g * FV_W, p[g]);
        sum[g % GROUP] = v_add(sum[g % GROUP], p[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_replace_some(int64_t key, float *s, const fv_keybits *bits,
                                                                       vf base, vf *sum, const int normal,
                                                                       const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_replace(s + key, every, 1, base, sum, normal, count);
    else if (attended)
        softmax_replace(s + key, attended, 0, base, sum, normal, count);
    else
        for (int g = 0; g < count; g++) {
            v_store(s + key + g * FV_W, v_set1(-0.0f));
            sum[g % GROUP] = v_add(sum[g % GROUP], v_set1(-0.0f));
        }
}

/* Exp and lanes of the sum of columns [begin, end) of a row; more: lanes has those of columns before. */
static inline __attribute__((always_inline)) void softmax_exp(int64_t begin, int64_t end, float *s,
                                                              const fv_keybits *bits, float base, const int normal,
                                                              int more, float *lanes) {
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = more ? v_load(lanes + g * FV_W) : v_set1(0.0f);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_replace_some(key, s, bits, v_set1(base), sum, normal, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_replace_some(key, s, bits, v_set1(base), sum, normal, GROUP);
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
    int64_t bits_step, known;
    int normal;
    float *lanes, *m, *l;
} softmax_rows;

static inline const fv_keybits *softmax_bits(const softmax_rows *x, int64_t row) {
    return x->bits ? x->bits + row * x->bits_step : NULL;
}

static inline __attribute__((always_inline)) void softmax_exps(const softmax_rows *x) {
    int64_t begin = x->begin;
#ifdef FV_SOFTMAX_PIPELINE
    const int64_t chunks = x->normal ? (x->end - x->begin) / PIPELINE : 0;
    if (chunks > 0) {
        const uint16_t *bits = x->bits ? (const uint16_t *)(const void *)x->bits + begin / FV_W : NULL;
        softmax_pipeline(x->count, chunks, x->s + begin, x->lds, x->l, bits, x->bits_step, x->lanes);
        begin += chunks * PIPELINE;
        if (begin == x->end)
            return;
    }
#endif
    const int more = begin > x->begin;
    for (int64_t i = 0; i < x->count && x->normal; i++)
        softmax_exp(begin, x->end, x->s + i * x->lds, softmax_bits(x, i), x->l[i], 1, more, x->lanes + i * FV_LANES);
    for (int64_t i = 0; i < x->count && !x->normal; i++)
        softmax_exp(begin, x->end, x->s + i * x->lds, softmax_bits(x, i), x->l[i], 0, more, x->lanes + i * FV_LANES);
}

static inline __attribute__((always_inline)) void softmax_all(const softmax_rows x) {
    for (int64_t i = 0; i < x.count && x.known < x.end; i++)
        softmax_highest(x.known, x.end, x.s + i * x.lds, softmax_bits(&x, i), x.lanes + i * FV_LANES,
                        x.known > x.begin);
    /* What is taken from the scores: their maxima, but no infinity where nothing is attended. l has it until the sums
     * are known. */
    for (int64_t i = 0; i < x.count; i += FV_W) {
        const vf highest = lanes_tree_n(x.lanes + i * FV_LANES, x.count - i, 1);
        softmax_store(x.m + i, x.count - i, highest);
        softmax_store(x.l + i, x.count - i, v_max(v_set1(-FLT_MAX), highest));
    }
    softmax_exps(&x);
    for (int64_t i = 0; i < x.count; i += FV_W)
        softmax_store(x.l + i, x.count - i, lanes_tree_n(x.lanes + i * FV_LANES, x.count - i, 0));
}

/* The same where all of so many groups of FV_LANES keys are attended: the compiler knows the ends of all loops. */
static inline __attribute__((always_inline)) void softmax_groups(softmax_rows all, const int groups) {
    all.s += all.begin;
    all.begin = 0;
    all.end = all.known = groups * FV_LANES;
    all.bits = NULL;
    all.normal = all.normal && groups > 4; /* few ask for a few groups: less code */
    softmax_all(all);
}

void FV_NAME(int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,
             int64_t known, int normal, float *lanes, float *m, float *l) {
    assert(rows >= 1 && (rows == 1 || lds >= end - begin));
    assert(0 <= begin && begin < end && end <= FV_SEGMENT && begin % FV_LANES == 0 && end % FV_LANES == 0);
    assert(!bits || bits_step >= 0);
    assert(begin <= known && known <= end && known % FV_LANES == 0);
    const softmax_rows all = {rows, begin, end, s, lds, bits, bits_step, known, normal, lanes, m, l};
    if (bits) {
        softmax_all(all);
        return;
    }
    switch (known < end ? 0 : (end - begin) / FV_LANES) {
    case 1: softmax_groups(all, 1); break;
    case 2: softmax_groups(all, 2); break;
    case 3: softmax_groups(all, 3); break;
    case 4: softmax_groups(all, 4); break;
    case FV_SEGMENT / FV_LANES: softmax_groups(all, FV_SEGMENT / FV_LANES); break;
    default: softmax_all(all); break;
    }
}
