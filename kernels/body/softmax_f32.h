/* softmax: scores of one segment to p = exp(s - m), with their maximum m and sum l a row (kernels.h has the contract).
 * A file that includes this one defines FV_SIDE, FV_AHEAD and, where whole segments that are all attended have a
 * pipeline of their own, FV_SOFTMAX_PIPELINE, the file it is in.
 *
 * Two passes over the rows, whose scores lie in a near cache: maxima, then exp and sums, so that no row waits for the
 * maximum of its own run. With FV_AHEAD, where registers suffice, the maxima of FV_W rows are found beside exp and sums
 * of the FV_W before them: exp is a chain whose operations wait for each other, and on AMD other units take the maxima
 * (family 25 model 17, AVX-512, times as fast, with an exp of one operation more: 2048 x 64 1.01 to 1.03, causal 1.01
 * to 1.02, 12 x 512 x 64 1.01; not measured on Intel; on AVX2 0.985 to 0.995, so there all maxima come first, as on
 * NEON, where nothing was measured). Maxima that the gemm of scores found as it stored its tiles gained no more (1.009
 * to 1.013, causal 1.004), as a tile's end took longer.
 *
 * The FV_LANES virtual lanes of a row are GROUP vectors, so a group of FV_LANES keys adds to the same lanes whatever
 * the width of a vector; FV_SIDE vectors go through exp side by side. A whole segment, the common case, has its own
 * loops, whose ends the compiler knows, and so have rows so short that it is their ends that take the time (32 rows of
 * 32 keys: 13 cycles for 16 of them instead of 16 on Intel family 6 model 207, within attention). Where bits tell what
 * is attended, SIDE vectors whose keys all are need no masks, and those of which none is no exp (causal 256 x 64: 4%
 * faster on AVX2, where a mask takes three operations, 1% on AVX-512).
 *
 * Bound: v_exp.h's operations plus one subtraction, one maximum, one addition, two loads and a store a vector
 * (fovea-bench --filter kernel/softmax times it alone). On AMD family 25 model 17 (Zen 4) the fma, mul and comparison
 * of v_exp.h are 8 cycles for 16 keys, the rest has other units: AVX-512 10.2 (10.5 with SIDE 4, whose causal 2048 x 64
 * is 0.6% slower; maxima first 11.1), AVX2 14.1 (15.6 with SIDE 4, 15.0 with maxima beside exp). On Intel's AVX-512
 * cores all share two ports: 7.5; not measured. With an exp of one operation more, of 8 there, 9.2 were reached between
 * the gemms of 24 rows (family 6 model 207, all maxima first); FV_W rows transposed for one tree, and maxima and sums
 * of one run after the other, took 9.6 (on AVX2 15.9 instead of 14.8). Longer chains of exp one after the other took
 * 11.7 there, as the scheduler was full of operations that wait.
 */
#include <float.h>

#include "softmax_tree.h"
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

static inline __attribute__((always_inline)) void softmax_highest(int64_t begin, int64_t end, const float *s,
                                                                  const fv_keybits *bits, vf lanes[GROUP]) {
    vf highest[SIDE];
    for (int g = 0; g < SIDE; g++)
        highest[g] = v_set1(-INFINITY);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_fold_some(key, s, bits, highest, SIDE, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_fold_some(key, s, bits, highest, GROUP, GROUP);
    for (int g = GROUP; g < SIDE; g++)
        highest[g % GROUP] = v_max(highest[g], highest[g % GROUP]);
    for (int g = 0; g < GROUP; g++)
        lanes[g] = highest[g];
}

/* Replaces count vectors of scores by p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_replace(float *s, uint64_t attended, const int all, vf base,
                                                                  vf *sum, const int count) {
    vf p[SIDE];
    for (int g = 0; g < count; g++)
        p[g] = v_sub(v_load(s + g * FV_W), base);
    v_exp_each(p, count);
    for (int g = 0; g < count; g++) {
        if (!all)
            p[g] = v_select(softmax_mask(attended, g), p[g], v_set1(-0.0f));
        v_store(s + g * FV_W, p[g]);
        sum[g % GROUP] = v_add(sum[g % GROUP], p[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_replace_some(int64_t key, float *s, const fv_keybits *bits,
                                                                       vf base, vf *sum, const int count) {
    const uint64_t every = softmax_lowest(count * FV_W);
    const uint64_t attended = bits ? softmax_attended(bits, key, count * FV_W) : every;
    if (attended == every)
        softmax_replace(s + key, every, 1, base, sum, count);
    else if (attended)
        softmax_replace(s + key, attended, 0, base, sum, count);
    else
        for (int g = 0; g < count; g++) {
            v_store(s + key + g * FV_W, v_set1(-0.0f));
            sum[g % GROUP] = v_add(sum[g % GROUP], v_set1(-0.0f));
        }
}

/* Scores of a row, and what it attends. */
typedef struct softmax_row {
    float *s; /* NULL: there is no such row */
    const fv_keybits *bits;
} softmax_row;

/* Exp and sums of the next count vectors of a row, and the maxima of a later row's. */
static inline __attribute__((always_inline)) void softmax_step(int64_t key, softmax_row row, vf base, vf *sum,
                                                               softmax_row later, vf *highest, const int count) {
    softmax_replace_some(key, row.s, row.bits, base, sum, count);
    if (later.s)
        softmax_fold_some(key, later.s, later.bits, highest, GROUP, count);
}

static inline __attribute__((always_inline)) void softmax_exp(int64_t begin, int64_t end, softmax_row row, float base,
                                                              vf lanes[GROUP], softmax_row later,
                                                              vf later_lanes[GROUP]) {
    vf sum[GROUP], highest[GROUP];
    for (int g = 0; g < GROUP; g++) {
        sum[g] = v_set1(0.0f);
        highest[g] = v_set1(-INFINITY);
    }
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        softmax_step(key, row, v_set1(base), sum, later, highest, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_step(key, row, v_set1(base), sum, later, highest, GROUP);
    for (int g = 0; g < GROUP; g++) {
        lanes[g] = sum[g];
        later_lanes[g] = highest[g];
    }
}

/* What is taken from the scores of FV_W rows: their maxima, but no infinity where nothing is attended. For all at once,
 * as a comparison before each row holds it up (16 keys in 5.6 instead of 5.9 cycles on AMD family 26 model 2). */
static inline void softmax_bases(int64_t rows, const float *m, float *base) {
    v_store(base, v_max(v_set1(-FLT_MAX), rows < FV_W ? v_load_n(m, rows) : v_load(m)));
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
    int64_t bits_step;
} softmax_rows;

/* Lanes of rows that are not there: any number. */
static inline void softmax_clear(row_lanes *lanes) {
    for (int r = 0; r < FV_W; r++)
        for (int g = 0; g < GROUP; g++)
            lanes->row[r][g] = v_set1(0.0f);
}

static inline __attribute__((always_inline)) softmax_row softmax_row_of(const softmax_rows *x, int64_t row) {
    if (row >= x->count)
        return (softmax_row){NULL, NULL};
    return (softmax_row){x->s + row * x->lds, x->bits ? x->bits + row * x->bits_step : NULL};
}

/* Of at most FV_W rows, from row first on. */
static inline __attribute__((always_inline)) void softmax_maxima(const softmax_rows *x, int64_t first, float *m) {
    row_lanes lanes;
    softmax_clear(&lanes);
    for (int64_t i = 0; i < FV_W && first + i < x->count; i++) {
        const softmax_row row = softmax_row_of(x, first + i);
        softmax_highest(x->begin, x->end, row.s, row.bits, lanes.row[i]);
    }
    softmax_store(m + first, x->count - first, softmax_tree(&lanes, 1));
}

/* Exp and sums of at most FV_W rows, from row first on, and the maxima of as many after them, if such rows have a
 * pipeline; 1 if so. */
static inline __attribute__((always_inline)) int softmax_piped(const softmax_rows *x, int64_t first, const float *base,
                                                               row_lanes *sum, row_lanes *highest) {
#ifdef FV_SOFTMAX_PIPELINE
    if (x->bits || x->begin != 0 || x->end != FV_SEGMENT)
        return 0;
    float *const s = x->s + first * x->lds;
    const int64_t after = x->count - first - FV_W; /* rows whose maxima are to be found */
    const int64_t rows = after < 0 ? after + FV_W : FV_W, ahead = after < 0 ? 0 : after < FV_W ? after : FV_W;
    if (ahead > 0)
        softmax_pipeline(ahead, s, x->lds, base, sum->row[0], s + FV_W * x->lds, highest->row[0]);
    float *const rest = s + ahead * x->lds; /* no others are after these, so they take their place */
    if (ahead < rows)
        softmax_pipeline(rows - ahead, rest, x->lds, base + ahead, sum->row[ahead], rest, highest->row[ahead]);
    return 1;
#else
    (void)x, (void)first, (void)base, (void)sum, (void)highest;
    return 0;
#endif
}

/* Of at most FV_W rows, from row first on, and the maxima of as many after them if these are found meanwhile. */
static inline __attribute__((always_inline)) void softmax_sums(const softmax_rows *x, int64_t first, float *m,
                                                               float *l) {
    row_lanes sum, highest;
    softmax_clear(&sum);
    softmax_clear(&highest);
    float base[FV_W];
    softmax_bases(x->count - first, m + first, base);
    const int piped = softmax_piped(x, first, base, &sum, &highest);
    for (int64_t i = 0; !piped && i < FV_W && first + i < x->count; i++) {
        softmax_exp(x->begin, x->end, softmax_row_of(x, first + i), base[i], sum.row[i],
                    softmax_row_of(x, FV_AHEAD ? first + FV_W + i : x->count), highest.row[i]);
    }
    softmax_store(l + first, x->count - first, softmax_tree(&sum, 0));
    if (FV_AHEAD && first + FV_W < x->count)
        softmax_store(m + first + FV_W, x->count - first - FV_W, softmax_tree(&highest, 1));
}

static inline __attribute__((always_inline)) void softmax_all(const softmax_rows x, float *m, float *l) {
    for (int64_t i = 0; i < x.count && !(FV_AHEAD && i > 0); i += FV_W)
        softmax_maxima(&x, i, m);
    for (int64_t i = 0; i < x.count; i += FV_W)
        softmax_sums(&x, i, m, l);
}

/* The same where all of so many groups of FV_LANES keys are attended: the compiler knows the ends of all loops. */
static inline __attribute__((always_inline)) void softmax_groups(softmax_rows all, const int groups, float *m,
                                                                 float *l) {
    all.s += all.begin;
    all.begin = 0;
    all.end = groups * FV_LANES;
    all.bits = NULL;
    softmax_all(all, m, l);
}

void FV_NAME(int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,
             float *m, float *l) {
    assert(rows >= 0 && (rows <= 1 || lds >= end - begin));
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0 && end % FV_LANES == 0);
    assert(!bits || bits_step >= 0);
    const softmax_rows all = {rows, begin, end, s, lds, bits, bits_step};
    if (bits) {
        softmax_all(all, m, l);
        return;
    }
    switch ((end - begin) / FV_LANES) {
    case 1: softmax_groups(all, 1, m, l); break;
    case 2: softmax_groups(all, 2, m, l); break;
    case 3: softmax_groups(all, 3, m, l); break;
    case 4: softmax_groups(all, 4, m, l); break;
    case FV_SEGMENT / FV_LANES: softmax_groups(all, FV_SEGMENT / FV_LANES, m, l); break;
    default: softmax_all((softmax_rows){rows, begin, end, s, lds, NULL, 0}, m, l); break;
    }
}
