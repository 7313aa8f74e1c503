/* softmax: scores s of a segment to p = exp(s - m), with maximum m and sum l a row, by kernels.h's contract.
 *
 * The maxima of most columns come with their scores: the product takes them as it stores its tiles, from registers,
 * where units that do not multiply are idle. What is left to find, where there is a mask or rows do not see all of a
 * panel, is found first.
 *
 * The FV_LANES virtual lanes of a row are GROUP vectors, so a group of FV_LANES keys adds to the same lanes whatever
 * the width of a vector; FV_SIDE vectors (the includer's choice) go through exp side by side. Columns that all rows
 * attend go first, then those of which bits tell: each vector is loaded as a mask, as to ask whether all keys are
 * attended would cost more than it saves; SIDE vectors of which none is need no exp.
 *
 * Bound: v_exp.h's operations plus one subtraction, one addition, one load and a store a vector, and no comparison
 * where all p are normal (fovea-bench --filter kernel/softmax). Cycles, and what lost: docs/lab/softmax.md.
 */
#include <float.h>
#include <stdbool.h>

#include "lanes_tree.h"
#include "v_exp.h"

enum { SIDE = FV_SIDE, TOGETHER = SIDE * FV_W };
_Static_assert(SIDE % GROUP == 0, "whole groups: keys meet their lanes");

/* p that are rounded to bfloat16 (softmax of that type): 0 where they are under 2^-40. exp rises with x, so a
 * comparison of x tells that: with the least float whose exp is not (test-exp holds it). */
#ifdef FV_ROUND_P
static inline vf softmax_rounded(vf p) { return v_weight_bf16(p); }
#define SOFTMAX_LOWEST -0x1.bb9d3ap+4f
enum { ROUNDED = 1 };
#else
static inline vf softmax_rounded(vf p) { return p; }
static inline void v_store_pairs(float *words, const vf *x, int count) { (void)words, (void)x, (void)count; }
#define SOFTMAX_LOWEST EXP_LOWEST
enum { ROUNDED = 0 };
#endif

/* Writes count vectors of p, of keys from key on. */
static inline __attribute__((always_inline)) void softmax_put(float *p, int paired, int64_t key, const vf *x,
                                                              const int count) {
    if (paired)
        v_store_pairs(p + key / 2, x, count);
    else
        for (int g = 0; g < count; g++)
            v_store(p + key + g * FV_W, x[g]);
}

/* Is one of count * FV_W keys from key on attended? */
static inline __attribute__((always_inline)) bool softmax_attends(const fv_keybits *bits, int64_t key,
                                                                  const int count) {
    uint32_t some = 0;
    for (int64_t at = key; at < key + count * FV_W; at += FV_LANES)
        some |= FV_W == FV_LANES ? v_to_bits(v_bits_at(bits->word, at))
                                 : (uint32_t)(bits->word[(uint64_t)at / 64] >> ((uint64_t)at % 64));
    return (some & ((1u << FV_LANES) - 1)) != 0;
}

/* Raises the chains of maxima, in turn, to count vectors of scores from key on. */
static inline __attribute__((always_inline)) void softmax_fold(int64_t key, const float *s, const fv_keybits *bits,
                                                               vf *row_max, const int chains, const int count) {
    for (int g = 0; g < count; g++) {
        const int64_t at = key + g * FV_W;
        vf *to = &row_max[g % chains];
        *to = bits ? v_max_where(v_bits_at(bits->word, at), v_load(s + at), *to) : v_max(v_load(s + at), *to);
    }
}

/* Raises the maxima of a row to those of its columns [begin, end), or begins them. */
static void softmax_row_max(int64_t begin, int64_t end, const float *s, const fv_keybits *bits, float *lanes,
                            int accumulate_max) {
    vf row_max[SIDE];
    for (int g = 0; g < SIDE; g++)
        row_max[g] = accumulate_max && g < GROUP ? v_load(lanes + g * FV_W) : v_set1(-INFINITY);
    int64_t key = begin;
    for (; (int)TOGETHER > FV_LANES && key + TOGETHER <= end; key += TOGETHER)
        softmax_fold(key, s, bits, row_max, SIDE, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_fold(key, s, bits, row_max, GROUP, GROUP);
    for (int g = GROUP; g < SIDE; g++)
        row_max[g % GROUP] = v_max(row_max[g], row_max[g % GROUP]);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, row_max[g]);
}

static inline const fv_keybits *softmax_bits(const fv_softmax_f32_args *x, int64_t row) {
    return x->bits ? x->bits + row * x->bits_step : NULL;
}

/* Facts that an instance is compiled for: bits tell which keys are attended; no p underflows. With bits, p are rarely
 * known not to underflow. */
typedef struct softmax_known {
    int masked, no_underflow;
} softmax_known;

/* Turns count vectors of scores from key on into p, and adds them to the lanes in the order of keys. Where c is NULL
 * nothing is multiplied: by 1 that would flush subnormal scores where that mode is on. */
static inline __attribute__((always_inline)) void softmax_weigh(int64_t key, const float *s, float *p, int paired,
                                                                const fv_keybits *bits, const float *c, vf base,
                                                                vf *sum, const softmax_known known, const int count) {
    vf x[SIDE];
    const bool some = !known.masked || softmax_attends(bits, key, count);
    for (int g = 0; g < count && some; g++)
        x[g] = v_load(s + key + g * FV_W);
    if (c) /* a branch, and no instance of its own: less text, in the same time */
        for (int g = 0; g < count && some; g++)
            x[g] = v_mul(x[g], v_set1(*c));
    for (int g = 0; g < count && some; g++)
        x[g] = v_sub(x[g], base);
    if (some)
        v_exp_from(x, count, known.no_underflow ? -INFINITY : SOFTMAX_LOWEST);
    for (int g = 0; g < count; g++) {
        x[g] = some ? softmax_rounded(x[g]) : v_set1(-0.0f);
        if (known.masked && some)
            x[g] = v_select(v_bits_at(bits->word, key + g * FV_W), x[g], v_set1(-0.0f));
        sum[g % GROUP] = v_add(sum[g % GROUP], x[g]);
    }
    softmax_put(p, paired, key, x, count);
}

/* p of columns [begin, end) of rows [row, last), whose maxima are in l, and lanes of their sums, which the span of the
 * first column begins. */
typedef void softmax_span_fn(const fv_softmax_f32_args *x, int64_t row, int64_t last, int64_t begin, int64_t end);

static inline __attribute__((always_inline)) void softmax_span(const fv_softmax_f32_args *x, int64_t row, int64_t last,
                                                               int64_t begin, int64_t end, const softmax_known known) {
    static const float none[FV_LANES];
    const int64_t lds = x->lds, ldp = x->ldp, from_step = begin > x->begin ? FV_LANES : 0;
    const float *s = x->s + row * lds, *from = from_step ? x->lanes + row * FV_LANES : none;
    float *p = x->p + row * ldp, *lanes = x->lanes + row * FV_LANES;
    const int paired = ROUNDED && x->paired;
    const float *c = x->c != 1.0f ? &x->c : NULL;
    for (; row < last; row++, s += lds, p += ldp, lanes += FV_LANES, from += from_step) {
        const fv_keybits *bits = softmax_bits(x, row);
        const vf base = v_set1(x->l[row]);
        vf sum[GROUP];
        for (int g = 0; g < GROUP; g++)
            sum[g] = v_load(from + g * FV_W);
        int64_t key = begin;
        for (; (int)TOGETHER > FV_LANES && key + TOGETHER <= end; key += TOGETHER)
            softmax_weigh(key, s, p, paired, bits, c, base, sum, known, SIDE);
        for (; key < end; key += FV_LANES)
            softmax_weigh(key, s, p, paired, bits, c, base, sum, known, GROUP);
        for (int g = 0; g < GROUP; g++)
            v_store(lanes + g * FV_W, sum[g]);
    }
}

#define SOFTMAX_SPAN(NAME, END, MASKED, NO_UNDERFLOW)                                                                  \
    static __attribute__((noinline)) void NAME(const fv_softmax_f32_args *x, int64_t row, int64_t last, int64_t begin, \
                                               int64_t end) {                                                          \
        (void)end;                                                                                                     \
        softmax_span(x, row, last, begin, END, (softmax_known){MASKED, NO_UNDERFLOW});                                 \
    }
SOFTMAX_SPAN(softmax_plain, end, 0, 0)
SOFTMAX_SPAN(softmax_two, begin + 2 * FV_LANES, 0, 0) /* groups of keys: short rows whose end compilers know */
SOFTMAX_SPAN(softmax_normal, end, 0, 1)
SOFTMAX_SPAN(softmax_masked, end, 1, 0)
#undef SOFTMAX_SPAN

static inline void softmax_store(float *to, int64_t rows, vf x) {
    if (rows < FV_W)
        v_store_n(to, rows, x);
    else
        v_store(to, x);
}

/* The trees of up to FV_W rows. */
static __attribute__((noinline)) vf softmax_tree_of_max(const float *lanes, int64_t rows) {
    return lanes_tree_n(lanes, rows, 1);
}

static __attribute__((noinline)) vf softmax_tree_of_sum(const float *lanes, int64_t rows) {
    return lanes_tree_n(lanes, rows, 0);
}

/* Maxima of rows: what is not known of them yet, then m, and in l what is taken from the scores, until the sums are
 * known: the maximum, but no infinity where nothing is attended. */
static inline void softmax_begin(const fv_softmax_f32_args *x) {
    for (int64_t i = 0; i < x->rows && x->row_max_end < x->end; i++)
        softmax_row_max(x->row_max_end, x->end, x->s + i * x->lds, softmax_bits(x, i), x->lanes + i * FV_LANES,
                        x->row_max_end > x->begin);
    for (int64_t i = 0; i < x->rows; i += FV_W) {
        vf row_max = softmax_tree_of_max(x->lanes + i * FV_LANES, x->rows - i);
        if (x->c != 1.0f) /* a product with 1 would flush subnormal scores where that mode is on */
            row_max = v_mul(row_max, v_set1(x->c));
        softmax_store(x->m + i, x->rows - i, row_max);
        softmax_store(x->l + i, x->rows - i, v_max(v_set1(-FLT_MAX), row_max));
    }
}

void FV_NAME(const fv_softmax_f32_args *x) {
    assert(x->rows == 1 || (x->rows > 1 && x->lds >= x->end - x->begin && x->ldp >= (x->end - x->begin) >> x->paired));
    assert(0 <= x->begin && x->begin < x->end && x->end <= FV_SEGMENT);
    assert(x->begin % FV_LANES == 0 && x->end % FV_LANES == 0);
    assert(x->p != x->s || (x->ldp == x->lds && !x->paired));
    assert(x->paired == 0 || (ROUNDED && x->paired == 1));
    assert(x->c >= 1.0f && x->c < 2.0f);
    assert(!x->bits || x->bits_step >= 0);
    assert(x->begin <= x->row_max_end && x->row_max_end <= x->end && x->row_max_end % FV_LANES == 0);
    softmax_begin(x);
    const bool normal = FV_W > 1 && !ROUNDED && x->no_underflow;
    const bool two = FV_W > 1 && !ROUNDED && !x->bits && x->end - x->begin == 2 * FV_LANES;
    softmax_span_fn *const all = two ? softmax_two : normal ? softmax_normal : softmax_plain;
    /* Overlapped products are stepped after each of two parts of a row: of a whole segment its halves, which keep tiles
     * busier than rows do (docs/lab/amx.md). Shorter ones are not worth it. */
    const bool whole = x->end - x->begin == FV_SEGMENT,
               overlaps = ROUNDED && x->overlapped && (x->bits || (whole && x->paired));
    const int64_t attended = x->row_max_masked ? x->begin : x->row_max_end, /* by all rows, where there are bits */
        middle = x->bits    ? attended
                 : overlaps ? FV_SEGMENT / 2
                            : x->end,
                  rows = overlaps ? 1 : x->rows;
    for (int64_t i = 0; i < x->rows; i += rows) {
        if (x->begin < middle)
            all(x, i, i + rows, x->begin, middle);
        if (overlaps)
            x->overlapped->step(x->overlapped, 2 * i + 1, 2 * x->rows);
        if (middle < x->end)
            (x->bits ? softmax_masked : all)(x, i, i + rows, middle, x->end);
        if (overlaps)
            x->overlapped->step(x->overlapped, 2 * i + 2, 2 * x->rows);
    }
    for (int64_t i = 0; i < x->rows; i += FV_W)
        softmax_store(x->l + i, x->rows - i, softmax_tree_of_sum(x->lanes + i * FV_LANES, x->rows - i));
}
