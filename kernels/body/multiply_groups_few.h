/* Products of few rows with integers in groups (groups.h has the formulas, body/groups_few.h how rows go through B).
 * FV_GROUPS: body/groups/<format>.h, which makes bytes of the words of 16 steps.
 *
 * Registers hold the chains of a few vectors of columns through all groups of a block, and of a group its sums. What is
 * fetched runs ahead in the order of memory, whatever the order of columns.
 * Bound: memory, with few rows; else the products. Operations for each vector of a group of 32 steps of i4g and R rows,
 * with VPDPBUSD: 12 for its words, and for each row 16 products and 5 at the end, more with zeros or minimums. */
#include "body/groups_few.h"

#include FV_GROUPS

enum { ROWS = STEPS * BITS / 32 }; /* of words, which hold STEPS */

/* Vectors of columns at once. */
#define FEW_VECTORS(rows) ((rows) == 1 ? V_OF_1 : V_OF_4)

/* Sums of a group start from the part that zeros subtract, times the sums of its X. */
FEW_INLINE void few_begin(const fv_groups_block *p, const char *x, int64_t lda, const float *zeros, const int rows,
                          const int nv, v_dots dots[][MOST_VECTORS]) {
    if (p->extra == FV_GROUP_zero) {
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            const v_total zero = v_total_of(v_sub(v_set1(-(float)p->zero), v_load(zeros + v * FV_W)));
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                dots[i][v] = v_dots_from(v_total_times(zero, v_total_at(&few_row(x, lda, i)->sum)));
        }
        return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const v_dots begin = BITS < 8 && p->extra == FV_GROUP_minimum
                                 ? v_dots_from(v_total_of(v_set1(0.0f)))
                                 : v_dots_from(v_total_scaled(&few_row(x, lda, i)->sum, -p->zero));
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            dots[i][v] = begin;
    }
}

/* At its end they become floats, which the chains take. */
FEW_INLINE void few_end(const fv_groups_block *p, const char *x, int64_t lda, const float *scales, const int rows,
                        const int nv, v_dots dots[][MOST_VECTORS], vf chains[][MOST_VECTORS]) {
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const vf scale = v_set1(few_row(x, lda, i)->scale);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            chains[i][v] =
                v_fma(v_total_float(v_dots_total(dots[i][v])), v_mul(v_load(scales + v * FV_W), scale), chains[i][v]);
    }
    if (p->extra == FV_GROUP_minimum)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            const fv_group_row *row = few_row(x, lda, i);
            const vf scale = v_set1(row->scale), sum = v_total_float(v_total_at(&row->sum));
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                chains[i][v] = v_fma(sum, v_mul(v_load(scales + p->width + v * FV_W), scale), chains[i][v]);
        }
}

FEW_INLINE void few_columns(const fv_groups_block *p, const int rows) {
    const int nv = FEW_VECTORS(rows);
    const int64_t ldb = p->ldb;
    const v_words table = v_words_signed(v_words_table(p->table));
    int64_t lda = p->lda * (int64_t)sizeof *p->a; /* bytes */
    uintptr_t fetch = p->fetch;
    const uintptr_t advance = (uintptr_t)(ROWS * nv * FV_W * 4 / p->share);
    for (int64_t j = 0; j < p->columns; j += nv * FV_W) {
        const uint32_t *b = p->words + j;
        const float *scales = (const float *)p->scales + j;
        const char *x = (const char *)p->a;
        vf chains[MOST_ROWS][MOST_VECTORS];
        int half = STEPS == 16 ? 0 : (int)p->half;
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                chains[i][v] = p->start ? v_load(p->start + i * p->ldstart + j + v * FV_W) : v_set1(0.0f);
        for (int64_t left = p->steps; left > 0; left -= p->group, scales += p->next) {
            const char *const group = x;
            x += FV_GROUP_HEAD * sizeof *p->a;
            v_dots dots[MOST_ROWS][MOST_VECTORS];
            few_begin(p, group, lda, scales + p->width, rows, nv, dots);
            for (int64_t steps = left < p->group ? left : p->group; steps > 0;
                 steps -= 16, x += FV_GROUP_WORDS * sizeof *p->a) {
                v_words w[MOST_VECTORS][4];
                if (half == 0) {
#pragma GCC unroll 16
                    for (int i = 0; i < (ROWS * nv * FV_W * 4 + LINE_BYTES - 1) / LINE_BYTES; i++)
                        __builtin_prefetch((const char *)fetch + i * LINE_BYTES, 0, 2);
                    fetch += advance;
                }
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++) {
                    group_words(b + v * FV_W, ldb, half, w[v]);
#pragma GCC unroll 4
                    for (int i = 0; i < 4 && TABLE; i++)
                        w[v][i] = v_words_lookup(table, w[v][i]);
                }
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++)
                    v_dots_add(dots[i], w, (const uint32_t *)(const void *)(x + i * lda), TABLE ? 8 : BITS, nv);
                half = STEPS == 16 ? 0 : !half;
                b += half ? 0 : ROWS * ldb;
                few_opaque(&b, &x, &fetch, &lda);
            }
            few_end(p, group, lda, scales, rows, nv, dots, chains);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                v_store(p->c + i * p->ldc + j + v * FV_W, chains[i][v]);
    }
}

static void few_1(const fv_groups_block *p) { few_columns(p, 1); }
static void few_4(const fv_groups_block *p) { few_columns(p, 4); }

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    static const fv_groups_few with = {V_BIAS, 0, {FEW_VECTORS(1) * FV_W, FEW_VECTORS(4) * FV_W}, {few_1, few_4}};
    fv_groups_few_run(&with, a, b, c, ldc, epilogue, prefetch);
}
