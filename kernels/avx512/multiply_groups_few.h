/* Products of few rows with integers in groups (groups.h has the formulas, body/groups_few.h how rows go through B).
 * FV_GROUPS: avx512/groups/<format>.h, which makes bytes of the words of 16 steps.
 *
 * Registers hold the chains of a few vectors of columns through all groups of a block, and of a group its sums. Words
 * are loaded once, in the order of memory: where loads go back and forth, hardware fetches nothing ahead.
 * Bound: memory, with few rows; else the products. Operations for each vector of a group of 32 steps of i4g and R rows,
 * with VPDPBUSD: 12 for its words, and for each row 16 products and 5 at the end, more with zeros or minimums. */
#include "body/groups_few.h"
#include "body/prefetch_ahead.h"

#include FV_GROUPS

enum {
    ROWS = STEPS * BITS / 32, /* of words, which hold STEPS */
    AHEAD = 2048              /* floats: what is read is fetched so far before */
};

/* Vectors of columns at once. */
#define FEW_VECTORS(rows) ((rows) == 1 ? V_OF_1 : V_OF_4)

/* Reads lines into the first-level cache in the order of memory, in which memory is read fastest: what needs them later
 * would find them missing behind what is read by then. */
FEW_INLINE void few_fetch(const char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE_BYTES)
        __builtin_prefetch(from + i, 0, 3);
}

/* Do groups of the format have super-blocks, or scales of their own? */
enum { SUPER8 = (BITS == 4 || BITS == 5) && !TABLE, SUPER16 = BITS == 6, PLAIN = !SUPER16 && !TABLE };

/* A group's scales, or minimums, of columns from j on, where they lie; d: those of the super-block. */
FEW_INLINE void few_scales(const fv_groups_block *p, const char *at, int64_t j, const vf *d, const int nv,
                           const int minimum, vf *to) {
#define FEW_EACH(load, type)                                                                                           \
    _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) to[v] = load((const type *)(const void *)at + j + v * FV_W)
    if (SUPER8 && p->layout == FV_SCALES_super8) {
        FEW_EACH(v_load_u8, uint8_t);
    } else if (SUPER16 && p->layout == FV_SCALES_super16) {
        FEW_EACH(v_load_i8, int8_t);
    } else {
        if (PLAIN && !minimum && (p->layout == FV_SCALES_bf16 || p->layout == FV_SCALES_bf16_zero))
            FEW_EACH(v_load_bf16, uint16_t);
        else if (TABLE && p->layout == FV_SCALES_e8m0)
            FEW_EACH(v_load_e8m0, uint8_t);
        else if (SUPER16 || p->layout == FV_SCALES_COUNT || p->layout == FV_SCALES_f32 ||
                 p->layout == FV_SCALES_f32_zero)
            FEW_EACH(v_load, float);
        else
            FEW_EACH(v_load_f16, uint16_t);
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        to[v] = v_mul(d[v], to[v]);
}

/* Sums of a group start from the part that zeros subtract, times the sums of its X. */
FEW_INLINE void few_begin(const fv_groups_block *p, const char *x, int64_t lda, const char *zeros, int64_t j,
                          const int rows, const int nv, v_dots dots[][MOST_VECTORS]) {
    if (p->extra == FV_GROUP_zero) {
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            const int64_t at = j + v * FV_W;
            const vf own = p->layout == FV_SCALES_COUNT ? v_load((const float *)(const void *)zeros + at)
                                                        : v_load_i8((const int8_t *)zeros + at);
            const v_total zero = v_total_of(v_sub(v_set1(-(float)p->zero), own));
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
FEW_INLINE void few_end(const fv_groups_block *p, const char *x, int64_t lda, const char *at, const char *other,
                        int64_t j, vf d[2][MOST_VECTORS], const int rows, const int nv, v_dots dots[][MOST_VECTORS],
                        vf chains[][MOST_VECTORS]) {
    vf scales[MOST_VECTORS];
    few_scales(p, at, j, d[0], nv, 0, scales);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const vf scale = v_set1(few_row(x, lda, i)->scale);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            chains[i][v] = v_fma(v_total_float(v_dots_total(dots[i][v])), v_mul(scales[v], scale), chains[i][v]);
    }
    if (p->extra != FV_GROUP_minimum)
        return;
    few_scales(p, other, j, d[1], nv, 1, scales);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const fv_group_row *row = few_row(x, lda, i);
        const vf scale = v_set1(row->scale), sum = v_total_float(v_total_at(&row->sum));
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            chains[i][v] = v_fma(sum, v_mul(scales[v], scale), chains[i][v]);
    }
}

/* The scales of a super-block, the second, of minimums, with the other sign. */
FEW_INLINE void few_super(const fv_groups_block *p, const char *at, int64_t j, const int nv, vf d[2][MOST_VECTORS]) {
    if (p->super == 0)
        return;
#pragma GCC unroll 4
    for (int v = 0; v < nv && (SUPER8 || SUPER16); v++) {
        const uint16_t *half = (const uint16_t *)(const void *)at + j + v * FV_W;
        d[0][v] = v_load_f16(half);
        if (SUPER8)
            d[1][v] = v_mul(v_load_f16(half + p->width), v_set1(-1.0f));
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
        const char *at = p->scales, *x = (const char *)p->a;
        vf chains[MOST_ROWS][MOST_VECTORS], d[2][MOST_VECTORS];
        int half = STEPS == 16 ? 0 : (int)p->half;
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++) {
                chains[i][v] = p->start ? v_load(p->start + i * p->ldstart + j + v * FV_W) : v_set1(0.0f);
                d[0][v] = d[1][v] = v_set1(0.0f);
            }
        const int gaps = p->layout < FV_SCALES_COUNT;
        const int64_t groups = gaps ? p->groups : p->next * (int64_t)sizeof(float),
                      other = gaps ? p->other : p->width * (int64_t)sizeof(float);
        int64_t in_chunk = 0; /* steps that are left in it */
        for (int64_t left = p->steps; left > 0; left -= p->group, in_chunk -= p->group, at += groups) {
            if (gaps && in_chunk <= 0) {
                if (left < p->steps) { /* what follows is the gap of the next */
                    at = (const char *)(b - j - p->first);
                    b += p->gap;
                }
                in_chunk = p->chunk;
                if (j == 0)
                    few_fetch(at, p->gap * 4);
                few_super(p, at, j + p->first, nv, d);
                at += p->super;
            }
            const char *const group = x;
            x += FV_GROUP_HEAD * sizeof *p->a;
            v_dots dots[MOST_ROWS][MOST_VECTORS];
            few_begin(p, group, lda, at + other, j + p->first, rows, nv, dots);
            for (int64_t steps = left < p->group ? left : p->group; steps > 0;
                 steps -= 16, x += FV_GROUP_WORDS * sizeof *p->a) {
                v_words lines[GROUP_LINES][MOST_VECTORS], w[MOST_VECTORS][4];
                if (p->once) {
                    __builtin_prefetch(fv_ahead((const float *)b, AHEAD), 0, 2);
                } else if (half == 0) {
                    if (BITS == 4) /* keys of int4, too */
#pragma GCC unroll 8
                        for (int i = 0; i < ROWS * nv * FV_W * 4; i += LINE_BYTES)
                            __builtin_prefetch((const char *)fetch + i, 0, 2);
                    else if (nv < 4)
#pragma GCC unroll 1
                        for (int i = 0; i < ROWS * nv * FV_W * 4; i += LINE_BYTES)
                            __builtin_prefetch((const char *)fetch + i, 0, 2);
                    fetch += advance;
                }
#pragma GCC unroll 4
                for (int word = 0; word < 4; word++) {
                    group_words(b, ldb, half, word, nv, lines, w);
#pragma GCC unroll 4
                    for (int v = 0; v < nv && TABLE; v++)
                        w[v][word] = v_words_lookup(table, w[v][word]);
#pragma GCC unroll 4
                    for (int i = 0; i < rows; i++)
                        v_dots_add(dots[i], w, (const uint32_t *)(const void *)(x + i * lda), word, BITS, nv);
                }
                half = STEPS == 16 ? 0 : !half;
                b += half ? 0 : ROWS * ldb;
                few_opaque(&b, &x, &fetch, &lda);
            }
            few_end(p, group, lda, at, at + other, j + p->first, d, rows, nv, dots, chains);
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
    static const fv_groups_few with = {V_BIAS, 1, {FEW_VECTORS(1) * FV_W, FEW_VECTORS(4) * FV_W}, {few_1, few_4}};
    fv_groups_few_run(&with, a, b, c, ldc, epilogue, prefetch);
}
