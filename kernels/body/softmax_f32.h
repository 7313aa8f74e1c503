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
 * tell what is attended, each vector of them is loaded as a mask: whether all keys are attended is not asked, which would
 * cost more than it saves; SIDE vectors of which none is need no exp.
 *
 * Bound: v_exp.h's operations plus one subtraction, one addition, one load and a store a vector, and no comparison
 * where all p are normal (fovea-bench --filter kernel/softmax). Cycles, and what lost: docs/measurements.md,
 * "softmax_f32.h".
 */
#include <float.h>
#include <stdbool.h>

#include "lanes_tree.h"
#include "v_exp.h"

enum { SIDE = FV_SIDE, TOGETHER = SIDE * FV_W };
_Static_assert(TOGETHER <= 64, "their bits are one word");
_Static_assert(SIDE % GROUP == 0, "whole groups: keys meet their lanes");

/* Writes count vectors of p, of keys from key on. */
static inline __attribute__((always_inline)) void softmax_write(float *p, int64_t key, const vf *x, const int count) {
    for (int g = 0; g < count; g++)
        v_store(p + key + g * FV_W, x[g]);
}

/* p that are rounded to bfloat16 (softmax of that type): 0 where they are under 2^-40. exp rises with x, so a comparison of x
 * tells that: with the least float whose exp is not (test-exp holds it). */
#ifdef FV_ROUND_P
static inline vf softmax_rounded(vf p) { return v_weight_bf16(p); }
static inline __attribute__((always_inline)) void softmax_put(float *p, int paired, int64_t key, const vf *x,
                                                              const int count) {
    if (paired)
        v_store_pairs(p + key / 2, x, count);
    else
        softmax_write(p, key, x, count);
}
#define SOFTMAX_LOWEST -0x1.bb9d3ap+4f
enum { ROUNDED = 1 };
#else
static inline vf softmax_rounded(vf p) { return p; }
static inline __attribute__((always_inline)) void softmax_put(float *p, int paired, int64_t key, const vf *x,
                                                              const int count) {
    (void)paired;
    softmax_write(p, key, x, count);
}
#define SOFTMAX_LOWEST EXP_LOWEST
enum { ROUNDED = 0 };
#endif

/* The lowest n bits, 1 <= n <= 64. */
static inline uint64_t softmax_lowest(int n) { return ~(uint64_t)0 >> (64 - n); }

/* The attended ones of count keys from key on; both are multiples of FV_LANES, and no word ends between them. */
static inline uint64_t softmax_attended(const fv_keybits *bits, int64_t key, int count) {
    return bits->word[(uint64_t)key / 64] >> ((uint64_t)key % 64) & softmax_lowest(count);
}

/* Raises so many chains of maxima, in turn, to count vectors of scores from key on. */
static inline __attribute__((always_inline)) void softmax_fold(int64_t key, const float *s, const fv_keybits *bits,
                                                               vf *row_max, const int chains, const int count) {
    for (int g = 0; g < count; g++) {
        const int64_t at = key + g * FV_W;
        vf *to = &row_max[g % chains];
        *to = bits ? v_max_where(v_bits_at(bits->word, at), v_load(s + at), *to) : v_max(v_load(s + at), *to);
    }
}

/* Raises the maxima of a row to those of its columns [begin, end), or begins them. */
static inline __attribute__((always_inline)) void
softmax_row_max(int64_t begin, int64_t end, const float *s, const fv_keybits *bits, float *lanes, int accumulate_max) {
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

/* After which part of a row something beside is stepped: half of a whole segment, where halves keep tiles busier than rows
 * (docs/measurements.md, "gemm_blocks_bf16.h"), or all of what it has. HALVES is a constant of an instance, ROWS is not. */
enum { ROWS = 1, HALVES = 2, HALF = FV_SEGMENT / 2 };

/* What an instance knows of its scores: they are multiplied by c; no p of theirs underflows. */
typedef struct softmax_known {
    int scaled, no_underflow;
    int paired; /* p goes as pairs; no constant */
    int beside; /* something is stepped beside them: HALVES or ROWS of them */
} softmax_known;

/* Turns count vectors of scores from key on into p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_weigh(int64_t key, const float *s, float *p,
                                                                const fv_keybits *bits, vf c, vf base, vf *sum,
                                                                const softmax_known known, const int count) {
    vf x[SIDE];
    for (int g = 0; g < count; g++) {
        x[g] = v_load(s + key + g * FV_W);
        if (known.scaled)
            x[g] = v_mul(x[g], c);
        x[g] = v_sub(x[g], base);
    }
    v_exp_from(x, count, known.no_underflow ? -INFINITY : SOFTMAX_LOWEST);
    for (int g = 0; g < count; g++) {
        x[g] = softmax_rounded(x[g]);
        if (bits)
            x[g] = v_select(v_bits_at(bits->word, key + g * FV_W), x[g], v_set1(-0.0f));
        sum[g % GROUP] = v_add(sum[g % GROUP], x[g]);
    }
    softmax_put(p, known.paired, key, x, count);
}

/* The same where bits tell that some or none are attended. */
static inline __attribute__((always_inline)) void softmax_weigh_some(int64_t key, const float *s, float *p,
                                                                     const fv_keybits *bits, vf c, vf base, vf *sum,
                                                                     const softmax_known known, const int count) {
    if (softmax_attended(bits, key, count * FV_W)) {
        softmax_weigh(key, s, p, bits, c, base, sum, known, count);
        return;
    }
    vf none[SIDE];
    for (int g = 0; g < count; g++) {
        none[g] = v_set1(-0.0f);
        sum[g % GROUP] = v_add(sum[g % GROUP], none[g]);
    }
    softmax_put(p, known.paired, key, none, count);
}

/* Columns [key, end) of a row. */
static inline __attribute__((always_inline)) void softmax_weigh_all(int64_t key, int64_t end, const float *s, float *p,
                                                                    vf c, vf base, vf *sum, const softmax_known known) {
    for (; (int)TOGETHER > FV_LANES && key + TOGETHER <= end; key += TOGETHER)
        softmax_weigh(key, s, p, NULL, c, base, sum, known, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_weigh(key, s, p, NULL, c, base, sum, known, GROUP);
}

/* Those that bits tell of. */
static inline __attribute__((always_inline)) void softmax_weigh_attended(int64_t key, int64_t end, const float *s,
                                                                         float *p, const fv_keybits *bits, vf c,
                                                                         vf base, vf *sum, const softmax_known known) {
    for (; (uint64_t)key % TOGETHER != 0 && key < end; key += FV_LANES)
        softmax_weigh_some(key, s, p, bits, c, base, sum, known, GROUP);
    for (; (int)TOGETHER > FV_LANES && key + TOGETHER <= end; key += TOGETHER)
        softmax_weigh_some(key, s, p, bits, c, base, sum, known, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_weigh_some(key, s, p, bits, c, base, sum, known, GROUP);
}

/* p and lanes of the sum of row i. Its maximum is in l. Bits tell nothing of the columns whose maxima came with them. */
static inline __attribute__((always_inline)) void softmax_exp(const fv_softmax_f32_args *x, int64_t i,
                                                              const softmax_known known) {
    const float *s = x->s + i * x->lds;
    float *p = x->p + i * x->ldp, *lanes = x->lanes + i * FV_LANES;
    const fv_keybits *bits = softmax_bits(x, i);
    const vf c = v_set1(x->c), base = v_set1(x->l[i]);
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = v_set1(0.0f);
    const bool parted = FV_W > 1 && bits && !x->row_max_masked;
    for (int64_t half = 0; known.beside == HALVES && half < 2; half++) {
        softmax_weigh_all(half * HALF, (half + 1) * HALF, s, p, c, base, sum, known);
        x->beside->step(x->beside, 2 * i + half + 1, 2 * x->rows);
    }
    if (known.beside != HALVES && (parted || !bits))
        softmax_weigh_all(x->begin, bits ? x->row_max_end : x->end, s, p, c, base, sum, known);
    if (bits)
        softmax_weigh_attended(parted ? x->row_max_end : x->begin, x->end, s, p, bits, c, base, sum, known);
    for (int g = 0; g < GROUP; g++)
        v_store(lanes + g * FV_W, sum[g]);
}

static inline void softmax_store(float *to, int64_t rows, vf x) {
    if (rows < FV_W)
        v_store_n(to, rows, x);
    else
        v_store(to, x);
}

/* The trees of up to FV_W rows: functions, as every instance has both. */
static __attribute__((noinline)) vf softmax_tree_of_max(const float *lanes, int64_t rows) {
    return lanes_tree_n(lanes, rows, 1);
}

static __attribute__((noinline)) vf softmax_tree_of_sum(const float *lanes, int64_t rows) {
    return lanes_tree_n(lanes, rows, 0);
}

static inline __attribute__((always_inline)) void softmax_rows(const fv_softmax_f32_args x, const softmax_known known) {
    for (int64_t i = 0; i < x.rows && x.row_max_end < x.end; i++)
        softmax_row_max(x.row_max_end, x.end, x.s + i * x.lds, softmax_bits(&x, i), x.lanes + i * FV_LANES,
                        x.row_max_end > x.begin);
    /* What is taken from the scores: their maxima, but no infinity where nothing is attended. l holds it until the sums
     * are known. */
    for (int64_t i = 0; i < x.rows; i += FV_W) {
        vf row_max = softmax_tree_of_max(x.lanes + i * FV_LANES, x.rows - i);
        if (known.scaled)
            row_max = v_mul(row_max, v_set1(x.c));
        softmax_store(x.m + i, x.rows - i, row_max);
        softmax_store(x.l + i, x.rows - i, v_max(v_set1(-FLT_MAX), row_max));
    }
    for (int64_t i = 0; i < x.rows; i++) {
        softmax_exp(&x, i, known);
        if (known.beside == ROWS)
            x.beside->step(x.beside, i + 1, x.rows);
    }
    for (int64_t i = 0; i < x.rows; i += FV_W)
        softmax_store(x.l + i, x.rows - i, softmax_tree_of_sum(x.lanes + i * FV_LANES, x.rows - i));
}

/* What the compiler is to know of rows: no bits; and of how many groups of FV_LANES keys they are, whose maxima came with
 * the scores, so that it knows the ends of all loops. */
enum { MASKED = -1, ANY = 0 };

static inline __attribute__((always_inline)) void softmax_instance(fv_softmax_f32_args x, const int groups,
                                                                   const softmax_known known) {
    if (groups != MASKED)
        x.bits = NULL;
    if (groups > 0) {
        x.s += x.begin;
        x.p += x.paired ? x.begin / 2 : x.begin;
        x.begin = 0;
        x.end = x.row_max_end = groups * FV_LANES;
    }
    softmax_rows(x, known);
}

/* Short rows are rarely known not to underflow. A product with 1 would flush subnormal scores where that mode is on. */
static inline __attribute__((always_inline)) void softmax_by(const fv_softmax_f32_args *x, const int groups) {
    const int scaled = x->c != 1.0f;
    const int no_underflow = FV_W > 1 && !ROUNDED && (groups <= 0 || groups > 4) && x->no_underflow;
    /* A step is a call, which takes constants out of their registers: an instance of its own. Other rows are not worth it. */
    const int beside = ROUNDED && x->beside, full = groups == FV_SEGMENT / FV_LANES && x->paired && beside,
              masked = groups == MASKED && beside ? ROWS : 0;
    if (full && scaled)
        softmax_instance(*x, groups, (softmax_known){1, 0, 1, HALVES});
    else if (full)
        softmax_instance(*x, groups, (softmax_known){0, 0, 1, HALVES});
    else if (scaled && no_underflow)
        softmax_instance(*x, groups, (softmax_known){1, 1, x->paired, masked});
    else if (scaled)
        softmax_instance(*x, groups, (softmax_known){1, 0, x->paired, masked});
    else if (no_underflow)
        softmax_instance(*x, groups, (softmax_known){0, 1, x->paired, masked});
    else
        softmax_instance(*x, groups, (softmax_known){0, 0, x->paired, masked});
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
    /* Rounded p have units that multiply them on few CPUs with narrow vectors: not worth the text. */
    if (x->bits || FV_W == 1 || (ROUNDED && FV_W < FV_LANES))
        softmax_by(x, MASKED);
    else
        switch (x->row_max_end < x->end ? ANY : (x->end - x->begin) / FV_LANES) {
        case 1: softmax_by(x, 1); break;
        case 2: softmax_by(x, 2); break;
        case 3: softmax_by(x, 3); break;
        case 4: softmax_by(x, 4); break;
        case FV_SEGMENT / FV_LANES: softmax_by(x, FV_SEGMENT / FV_LANES); break;
        default: softmax_by(x, ANY); break;
        }
}
