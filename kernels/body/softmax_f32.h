/* softmax: scores of one segment to p = exp(s - m), with their maximum m and sum l a row (kernels.h has the contract).
 *
 * Two passes over FV_W rows that lie in the first-level cache: maxima, then exp and sums. The FV_LANES virtual lanes of
 * a row are GROUP vectors, so a group of FV_LANES keys adds to the same lanes whatever the width of a vector; SIDE
 * vectors go through exp side by side. The lanes of FV_W rows are transposed, so that one tree folds all of them.
 *
 * Bound: v_exp.h's operations plus one subtraction, one maximum, one addition, two loads and a store a vector; on AMD
 * Zen 5 6 cycles for 16 keys on AVX-512, where 7.6 are reached (fovea-bench --filter kernel/softmax). Tried and
 * lost: one chain of exp after the other (11.7 cycles, the scheduler is full of operations that wait), each row folded
 * by itself (8.1).
 */
#include "v_exp.h"

enum { GROUP = FV_LANES / FV_W, SIDE = FV_EXP_SIDE > GROUP ? FV_EXP_SIDE : GROUP };

/* The virtual lanes of FV_W rows. */
typedef struct row_lanes {
    vf row[FV_W][GROUP];
} row_lanes;

static inline vf softmax_add(vf a, vf b, const int maximum) { return maximum ? v_max(a, b) : v_add(a, b); }

/* Folds the lanes of each row by the tree of kernels.h: one value a row. */
static inline __attribute__((always_inline)) vf softmax_tree(row_lanes *lanes, const int maximum) {
    vf block[FV_W];
    for (int r = 0; r < FV_W; r++) {
        for (int half = GROUP / 2; half > 0; half /= 2)
            for (int g = 0; g < half; g++)
                lanes->row[r][g] = softmax_add(lanes->row[r][g], lanes->row[r][g + half], maximum);
        block[r] = lanes->row[r][0];
    }
    v_transpose(block);
    for (int half = FV_W / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            block[j] = softmax_add(block[j], block[j + half], maximum);
    return block[0];
}

/* The attended ones of the FV_W keys from key on; key is a multiple of FV_W. */
static inline vm softmax_attended(const fv_keybits *bits, int64_t key) {
    return v_bits((uint32_t)(bits->word[key / 64] >> (key % 64)) & (uint32_t)((1ull << FV_W) - 1));
}

/* Folds count vectors of scores from key on into as many maxima. */
static inline __attribute__((always_inline)) void softmax_fold(int64_t key, const float *s, const fv_keybits *bits,
                                                               vf *highest, const int count) {
    for (int g = 0; g < count; g++) {
        vf x = v_load(s + key + g * FV_W);
        if (bits)
            x = v_select(softmax_attended(bits, key + g * FV_W), x, v_set1(-INFINITY));
        highest[g] = v_max(x, highest[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_highest(int64_t begin, int64_t end, const float *s,
                                                                  const fv_keybits *bits, vf lanes[GROUP]) {
    vf highest[SIDE];
    for (int g = 0; g < SIDE; g++)
        highest[g] = v_set1(-INFINITY);
    int64_t key = begin;
    for (; key + SIDE * FV_W <= end; key += SIDE * FV_W)
        softmax_fold(key, s, bits, highest, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_fold(key, s, bits, highest, GROUP);
    for (int g = GROUP; g < SIDE; g++)
        highest[g % GROUP] = v_max(highest[g], highest[g % GROUP]);
    for (int g = 0; g < GROUP; g++)
        lanes[g] = highest[g];
}

/* Replaces count vectors of scores from key on by p, and adds them to the lanes in the order of keys. */
static inline __attribute__((always_inline)) void softmax_replace(int64_t key, float *s, const fv_keybits *bits,
                                                                  vf base, vf *sum, const int count) {
    vf p[SIDE];
    for (int g = 0; g < count; g++)
        p[g] = v_sub(v_load(s + key + g * FV_W), base);
    v_exp_each(p, count);
    for (int g = 0; g < count; g++) {
        if (bits)
            p[g] = v_select(softmax_attended(bits, key + g * FV_W), p[g], v_set1(-0.0f));
        v_store(s + key + g * FV_W, p[g]);
        sum[g % GROUP] = v_add(sum[g % GROUP], p[g]);
    }
}

static inline __attribute__((always_inline)) void softmax_exp(int64_t begin, int64_t end, float *s,
                                                              const fv_keybits *bits, float base, vf lanes[GROUP]) {
    vf sum[GROUP];
    for (int g = 0; g < GROUP; g++)
        sum[g] = v_set1(0.0f);
    int64_t key = begin;
    for (; key + SIDE * FV_W <= end; key += SIDE * FV_W)
        softmax_replace(key, s, bits, v_set1(base), sum, SIDE);
    for (; key < end; key += FV_LANES)
        softmax_replace(key, s, bits, v_set1(base), sum, GROUP);
    for (int g = 0; g < GROUP; g++)
        lanes[g] = sum[g];
}

static inline void softmax_store(float *to, int64_t rows, vf x) {
    if (rows < FV_W)
        v_store_n(to, rows, x);
    else
        v_store(to, x);
}

/* Up to FV_W rows. */
static inline __attribute__((always_inline)) void softmax_rows(int64_t rows, int64_t begin, int64_t end, float *s,
                                                               int64_t lds, const fv_keybits *bits, int64_t bits_step,
                                                               float *m, float *l) {
    row_lanes lanes;
    for (int r = 0; r < FV_W; r++) /* lanes of rows that are not there: any number */
        for (int g = 0; g < GROUP; g++)
            lanes.row[r][g] = v_set1(0.0f);
    for (int64_t i = 0; i < rows; i++)
        softmax_highest(begin, end, s + i * lds, bits ? bits + i * bits_step : NULL, lanes.row[i]);
    const vf highest = softmax_tree(&lanes, 1);
    softmax_store(m, rows, highest);
    float base[FV_W];
    v_store(base, v_select(v_eq(highest, v_set1(-INFINITY)), v_set1(0.0f), highest));
    for (int64_t i = 0; i < rows; i++)
        softmax_exp(begin, end, s + i * lds, bits ? bits + i * bits_step : NULL, base[i], lanes.row[i]);
    softmax_store(l, rows, softmax_tree(&lanes, 0));
}

void FV_NAME(int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,
             float *m, float *l) {
    for (int64_t i = 0; i < rows; i += FV_W) {
        const int64_t count = rows - i < FV_W ? rows - i : FV_W;
        if (bits)
            softmax_rows(count, begin, end, s + i * lds, lds, bits + i * bits_step, bits_step, m + i, l + i);
        else
            softmax_rows(count, begin, end, s + i * lds, lds, NULL, 0, m + i, l + i);
    }
}
