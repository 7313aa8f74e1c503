/* Products of few rows with integers in groups (groups.h has the formulas, body/groups_few.h how rows go through B).
 * FV_GROUPS: <tier>/groups/<format>.h, whose few_step multiplies FEW_STEPS steps.
 *
 * Registers hold the chains of a few vectors of columns through all groups of a block, and of a group its sums. Words
 * are loaded once, in the order of memory: where loads go back and forth, hardware fetches nothing ahead.
 * Bound: memory, with few rows; else the products. Operations for each vector of a group of 32 steps of i4g and R rows,
 * with VPDPBUSD: 12 for its words, and for each row 16 products and 5 at the end, more with zeros or minimums. */
#include "body/groups_few.h"

#include FV_GROUPS

enum { ROWS = STEPS * BITS / 32 }; /* of words, which have STEPS steps */

/* Is every pair of lines of a stream fetched? Where the hardware alone would depend on where loops lie in the program:
 * docs/lab/experts.md. */
enum { LINES = BITS == 4 && !TABLE && FV_W == 16 };
#define PAIR (~(uintptr_t)(2 * LINE_BYTES - 1))

/* Vectors of columns at once. Of several rows, each group is read by turns of that many, one after the other. */
#define FEW_VECTORS(rows) ((rows) == 1 ? V_OF_1 : V_OF_ROWS(BITS))
#define FEW_TURNS(rows) ((rows) == 1 ? 1 : V_TURNS)

/* Reads lines of scales into the first-level cache in the order of memory, in which memory is read fastest: what needs
 * them later would find them missing behind what is read by then. Of a stream the next ones; else, as what is fetched
 * are words alone, those of the next chunk. */
FEW_INLINE void few_fetch(const fv_groups_block *p, const char *at) {
    const uintptr_t from = (uintptr_t)at + (p->panel > 0 ? 0 : (uintptr_t)(p->gap * 4 + p->chunk * BITS / 8 * p->ldb));
    for (int64_t i = 0; i < p->gap * 4; i += LINE_BYTES)
        __builtin_prefetch((const char *)from + i, 0, 3);
}

/* Do groups of the format have super-blocks, or (PLAIN) scales of their own? Only these and SUPER8 have zeros or
 * minimums. */
enum { SUPER8 = (BITS == 4 || BITS == 5) && !TABLE, SUPER16 = BITS == 6, PLAIN = !SUPER16 && !TABLE };

/* Scales of bfloat16, and zeros: rare, so they take little text. */
FEW_INLINE void few_rare(const fv_groups_block *p, const char *at, int64_t j, const int zeros, const int nv, vf to[]) {
#pragma GCC unroll 1
    for (int64_t v = j; v < j + nv * FV_W; v += FV_W)
        *to++ = !zeros                         ? v_load_bf16((const uint16_t *)(const void *)at + v)
                : p->layout == FV_SCALES_COUNT ? v_load((const float *)(const void *)at + v)
                                               : v_load_i8((const int8_t *)at + v);
}

/* A group's scales, or minimums, of columns from j on, where they lie; d: those of the super-block. */
FEW_INLINE void few_scales(const fv_groups_block *p, const char *at, int64_t j, const vf *d, const int nv,
                           const int minimum, vf *to) {
#define FEW_EACH(value) _Pragma("GCC unroll 4") for (int v = 0; v < nv; v++) to[v] = value
#define FEW_AT(type) ((const type *)(const void *)at + j + v * FV_W)
    if (SUPER8 && p->layout == FV_SCALES_super8) {
        FEW_EACH(v_mul(d[v], v_load_u8(FEW_AT(uint8_t))));
    } else if (SUPER16 && p->layout == FV_SCALES_super16) {
        FEW_EACH(v_mul(d[v], v_load_i8(FEW_AT(int8_t))));
    } else if (PLAIN && !minimum && (p->layout == FV_SCALES_bf16 || p->layout == FV_SCALES_bf16_zero)) {
        vf rare[MOST_VECTORS];
        few_rare(p, at, j, 0, nv, rare);
        FEW_EACH(rare[v]);
    } else if (TABLE && p->layout == FV_SCALES_e8m0) {
        FEW_EACH(v_load_e8m0(FEW_AT(uint8_t)));
    } else if (SUPER16 || p->layout == FV_SCALES_COUNT || p->layout == FV_SCALES_f32 ||
               p->layout == FV_SCALES_f32_zero) {
        FEW_EACH(v_load(FEW_AT(float)));
    } else {
        FEW_EACH(v_load_f16(FEW_AT(uint16_t)));
    }
}

/* Sums of a group start from the part that zeros subtract, times the sums of its X. */
FEW_INLINE void few_begin(const fv_groups_block *p, const char *x, int64_t lda, const char *zeros, int64_t j,
                          const int rows, const int nv, v_dots dots[][MOST_VECTORS]) {
    if (PLAIN && p->extra == FV_GROUP_zero) {
        vf rare[MOST_VECTORS];
        few_rare(p, zeros, j, 1, nv, rare);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            const v_total zero = v_total_of(v_sub(v_set1(-(float)p->zero), rare[v]));
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
                        const int first, vf chains[][MOST_VECTORS]) {
    vf scales[MOST_VECTORS];
    few_scales(p, at, j, d[0] + first, nv, 0, scales);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const vf scale = v_set1(few_row(x, lda, i)->scale);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            chains[i][first + v] =
                v_fma(v_total_float(v_dots_total(dots[i][v])), v_mul(scales[v], scale), chains[i][first + v]);
    }
    if (!PLAIN || p->extra != FV_GROUP_minimum)
        return;
    few_scales(p, other, j, d[1] + first, nv, 1, scales);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const fv_group_row *row = few_row(x, lda, i);
        const vf scale = v_set1(row->scale), sum = v_total_float(v_total_at(&row->sum));
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            chains[i][first + v] = v_fma(sum, v_mul(scales[v], scale), chains[i][first + v]);
    }
}

/* The scales of a super-block, the second, of minimums, with the other sign. */
FEW_INLINE void few_super(const fv_groups_block *p, const char *at, int64_t j, const int nv, vf d[2][MOST_VECTORS]) {
    if (p->super == 0)
        return;
#pragma GCC unroll 1
    for (int v = 0; v < nv && (SUPER8 || SUPER16); v++) {
        const uint16_t *half = (const uint16_t *)(const void *)at + j + v * FV_W;
        d[0][v] = v_load_f16(half);
        if (SUPER8)
            d[1][v] = v_mul(v_load_f16(half + p->width), v_set1(-1.0f));
    }
}

/* Fetches what follows the words of a step, at b. */
FEW_INLINE void few_ahead(const fv_groups_block *p, const uint32_t *b, uintptr_t fetch, const int rows, const int nv) {
    const int bytes = ROWS * nv * FV_W * 4;
    const uintptr_t from = p->panel > 0 ? (uintptr_t)b + fetch : fetch;
    if (p->panel > 0 && FEW_TURNS(rows) > 1) {
#pragma GCC unroll 5
        for (int i = 0; i < ROWS; i++) /* of several rows, loads are all that products wait for */
            __builtin_prefetch((const char *)from + i * p->ldb * 4, 0, 3);
    } else if (p->panel > 0 && LINES) { /* the hardware fetches the other line of each pair */
#pragma GCC unroll 4
        for (int i = 0; i < bytes; i += 2 * LINE_BYTES)
            __builtin_prefetch((const char *)((from + fetch) & PAIR) + i, 0, 2);
    } else if (p->panel > 0) {
        __builtin_prefetch((const char *)from, 0, 2);
    } else if (BITS == 4) { /* keys of int4, too */
#pragma GCC unroll 8
        for (int i = 0; i < bytes; i += LINE_BYTES)
            __builtin_prefetch((const char *)from + i, 0, 2);
    } else if (rows > 1) {
#pragma GCC unroll 1
        for (int i = 0; i < bytes; i += LINE_BYTES)
            __builtin_prefetch((const char *)from + i, 0, 2);
    }
}

/* Chains are registers, or, of several turns, in memory. */
#if FV_W == 16
#define FEW_EACH_CHAIN(rows, vectors)                                                                                  \
    _Pragma("GCC unroll 4") for (int i = 0; i < (rows); i++) _Pragma("GCC unroll 4") for (int v = 0; v < (vectors); v++)
#else
#define FEW_EACH_CHAIN(rows, vectors)                                                                                  \
    _Pragma("GCC unroll 1") for (int i = 0; i < (rows); i++) _Pragma("GCC unroll 1") for (int v = 0; v < (vectors); v++)
#endif

FEW_INLINE void few_columns(const fv_groups_block *p, const int rows) {
    const int nv = FEW_VECTORS(rows);
    const int64_t ldb = p->ldb, strip = nv * FV_W;
    const v_words table = v_words_signed(v_words_table(p->table));
    int64_t lda = p->lda * (int64_t)sizeof *p->a; /* bytes */
    uintptr_t fetch = p->fetch;
    const uintptr_t advance = (uintptr_t)(ROWS * strip * 4 / p->share);
    int64_t skipped = 0; /* words of panels */
    for (int64_t done = 0, turns; done < p->columns; done += turns * strip, skipped += p->panel) {
        turns = FEW_TURNS(rows) == 1 || p->columns - done == strip ? 1 : FEW_TURNS(rows);
        if (FEW_TURNS(rows) > 1)
            __asm__("" : "+r"(turns)); /* gcc would write the loop twice */
        const int64_t j = p->panel > 0 ? 0 : done;
        const uint32_t *b = p->words + skipped + j;
        const char *at = (const char *)p->scales + skipped * (int64_t)sizeof *b, *x = (const char *)p->a;
        vf chains[MOST_ROWS][MOST_VECTORS], d[2][MOST_VECTORS] = {{v_set1(0.0f)}};
        FEW_EACH_CHAIN(rows, nv * (int)turns)
        chains[i][v] = p->start ? v_load(p->start + i * p->ldstart + done + v * FV_W) : v_set1(0.0f);
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
                    few_fetch(p, at);
                few_super(p, at, j + p->first, nv * (int)turns, d);
                at += p->super;
            }
            const char *const group = x;
            const uint32_t *const begin = b;
#pragma GCC unroll 1
            for (int turn = 0; turn < turns; turn++) {
                const int64_t column = j + p->first + turn * strip;
                v_dots dots[MOST_ROWS][MOST_VECTORS];
                few_begin(p, group, lda, at + other, column, rows, nv, dots);
                b = begin + turn * strip;
                x = group + FV_GROUP_HEAD * sizeof *p->a;
                for (int64_t steps = left < p->group ? left : p->group; steps > 0;
                     steps -= FEW_STEPS, x += FEW_STEPS / 16 * FV_GROUP_WORDS * sizeof *p->a, b += ROWS * ldb) {
                    few_ahead(p, b, fetch, rows, nv);
                    fetch += p->panel > 0 ? 0 : advance;
                    few_step(dots, b, ldb, table, x, lda, rows, nv);
                    few_opaque(&b, &x, &fetch, &lda);
                }
                few_end(p, group, lda, at, at + other, column, d, rows, nv, dots, turn * nv, chains);
                b -= turn * strip;
            }
        }
        FEW_EACH_CHAIN(rows, nv * (int)turns)
        v_store(p->c + i * p->ldc + done + v * FV_W, chains[i][v]);
    }
}

/* The hardware fetches more or less by where a loop lies (LINES): this does not move with what is linked before it. */
static __attribute__((aligned(64))) void few_1(const fv_groups_block *p) { few_columns(p, 1); }
static void few_more(const fv_groups_block *p) { few_columns(p, V_ROWS(BITS)); }

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    static const fv_groups_few with = {
        V_BIAS, V_ROWS(BITS), V_TURNS > 1, {V_OF_1 * FV_W, V_OF_ROWS(BITS) * FV_W}, {few_1, few_more}};
    fv_groups_few_run(&with, a, b, c, ldc, epilogue, prefetch);
}
