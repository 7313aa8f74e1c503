/* Products of few rows with integers in groups (groups.h has the formulas, body/groups_few.h how rows go through B).
 * FV_GROUPS: body/groups/<format>.h, which makes bytes of the words of 16 steps.
 *
 * Columns of a piece of a group are taken by vectors: registers hold the words of 16 steps and the sums of all rows. At
 * the end of a group sums become floats, which are added to the chains; both are in the first-level cache.
 * Bound: memory, with few rows; else the products. Operations for each vector of a group of 32 steps of i4g and R rows,
 * with VPDPBUSD: 12 for its words, and for each row 16 products and 5 at the end, more with zeros or minimums. */
#include "body/groups_few.h"

#include FV_GROUPS

#include <stdbool.h>

enum { ROWS = STEPS * BITS / 32, LINE_BYTES = 64 }; /* of words, that hold STEPS */

/* The sums of a piece, all columns. */
static inline __attribute__((always_inline)) void few_columns(const fv_groups_piece *p, const int rows) {
    const int64_t ldb = p->ldb, columns = p->columns, steps = p->steps, fetch = p->fetch, done = p->done;
    int32_t(*totals)[FV_GROUPS_MOST_COLUMNS] = p->sums->totals + p->row;
    for (int64_t j = 0; j < columns; j += FV_W) {
        const int64_t ahead = j * 4 % LINE_BYTES == 0 ? fetch : 0;
        const uint32_t *b = p->words + j;
        const fv_i8_word *x[FV_GROUPS_MOST_ROWS];
        v_dots dots[FV_GROUPS_MOST_ROWS];
        int half = STEPS == 16 ? 0 : (int)p->half;
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            x[i] = p->group[i]->word + done / 4;
            dots[i] = v_dots_from(done == 0 ? v_total_all(p->start + i) : v_total_load(totals[i] + j));
        }
        for (int64_t left = steps; left > 0; left -= 16) {
            v_words w[4];
            group_words(b, ldb, half, w);
            if (half == 0)
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++)
                    __builtin_prefetch((const char *)((uintptr_t)(b + i * ldb) + (uintptr_t)ahead), 0, 2);
            half = STEPS == 16 ? 0 : !half;
            b += half ? 0 : ROWS * ldb;
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                dots[i] = v_dots_add(dots[i], w, x[i], BITS);
                x[i] += 4;
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            v_total_store(totals[i] + j, v_dots_total(dots[i]));
    }
}

static void few_1(const fv_groups_piece *p) { few_columns(p, 1); }
static void few_2(const fv_groups_piece *p) { few_columns(p, 2); }
static void few_4(const fv_groups_piece *p) { few_columns(p, 4); }
static void few_8(const fv_groups_piece *p) {
    if (V_ROWS == 8)
        few_columns(p, 8);
}

/* chains = fma(totals, scale * x_scale, chains), totals less zero times the sum of X first. */
static inline __attribute__((always_inline)) void few_scale(const fv_groups_piece *p, const bool zeros) {
    for (int64_t i = 0; i < p->rows; i++) {
        const vf x_scale = v_set1(p->group[i]->scale);
        const v_total sum = v_total_all(&p->group[i]->sum);
        const int32_t *total = p->sums->totals[p->row + i];
        float *chain = p->sums->chains[p->row + i];
        for (int64_t j = 0; j < p->columns; j += FV_W) {
            v_total all = v_total_load(total + j);
            if (zeros)
                all = v_total_less(all, v_load(p->more + j), sum);
            v_store(chain + j, v_fma(v_total_float(all), v_mul(v_load(p->scales + j), x_scale), v_load(chain + j)));
        }
    }
}

static void few_end(const fv_groups_piece *p) {
    if (p->extra == FV_GROUP_zero) {
        few_scale(p, true);
        return;
    }
    few_scale(p, false);
    for (int64_t i = 0; i < p->rows && p->extra == FV_GROUP_minimum; i++) {
        const vf x_scale = v_set1(p->group[i]->scale), sum = v_total_float(v_total_all(&p->group[i]->sum));
        float *chain = p->sums->chains[p->row + i];
        for (int64_t j = 0; j < p->columns; j += FV_W)
            v_store(chain + j, v_fma(sum, v_mul(v_load(p->more + j), x_scale), v_load(chain + j)));
    }
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    static const fv_groups_few with = {
        V_ROWS, V_BIAS, BITS == 8 ? 64 : 128, {few_1, few_2, few_4, V_ROWS == 8 ? few_8 : few_4}, few_end};
    fv_groups_few_run(&with, a, b, c, ldc, epilogue, prefetch);
}
