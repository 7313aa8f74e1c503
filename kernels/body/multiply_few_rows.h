/* Products of few rows, B as it lies, widened in registers (kernels.h has the contract). FV_ELEMENT: that of B;
 * FV_WIDEN: FV_W of them as floats; FV_PAIR: parts words of two, which is cheaper. If defined: FV_STEP_SCALES, B has
 * scales of steps, or NULL; FV_WHOLE, a block of more rows than FEW_ROWS goes through all steps; FV_STRIPS, more than
 * two rows go by strips (multiply_few_strips.h).
 *
 * A block has as many rows and columns as fill the registers with chains, so that each element is read and widened
 * once, in the order of memory, which hardware fetches ahead. Where a block has but some of the columns, few steps of
 * all blocks are taken in turn. Columns that fill no block are taken by vectors; less than a vector is copied, a few
 * steps at a time, and padded with zeros. Bound: memory, or the products. Figures: docs/lab/decode.md. */
#ifdef __aarch64__
#define FV_KEEP(x) "+w"(x)
#else
#define FV_KEEP(x) "+v"(x)
#endif
#ifndef FV_WHOLE
#define FV_WHOLE 0
#endif
#include <stdbool.h>
#include <stdint.h>

#if defined(FV_PAIR)
enum { HALF_THREE = 0 };
#else
enum { HALF_THREE = sizeof(FV_ELEMENT) < sizeof(float) }; /* three rows at once in half a block: less text without */
#endif

#define FEW_INLINE static inline __attribute__((always_inline))

enum {
    MOST_ROWS = 8,
    LINE_BYTES = 64,
    MOST_COLUMNS = 128 /* whose chains are kept: as most heads have */
};

/* Rows and vectors of columns that have their chains in registers; on AVX-512 compilers keep six of 32 in memory. */
enum {
    FEW_ROWS = FV_W == 16 ? 4 : 2,
    FEW_VECTORS = FV_W == 8 ? 4 : 8,
    FEW_STEPS = FV_W == 16 ? 16 : 8 /* taken in turn */
};

typedef struct few_args {
    int64_t m, n, k, lda, ldb, ldc;
    const float *a;
    const FV_ELEMENT *b;
    float *c;
    const fv_epilogue *e;
    const char *next, *next_end;
} few_args;

/* Pairs of vectors of chains are columns in order, or, where words are parted, the even ones and the odd ones. */
FEW_INLINE void few_part(float *chains) {
#ifdef FV_PAIR
    vf even, odd;
    v_deinterleave(v_load(chains), v_load(chains + FV_W), &even, &odd);
    v_store(chains, even);
    v_store(chains + FV_W, odd);
#else
    (void)chains;
#endif
}
FEW_INLINE void few_join(float *chains) {
#ifdef FV_PAIR
    vf first, second;
    v_interleave(v_load(chains), v_load(chains + FV_W), &first, &second);
    v_store(chains, first);
    v_store(chains + FV_W, second);
#else
    (void)chains;
#endif
}

/* Sets what the chains of rows begin with, for `blocks` blocks of `vectors` vectors of columns from j on. */
static __attribute__((noinline)) void few_start(const few_args *t, int64_t j, int64_t blocks, int64_t vectors,
                                                float *chains) {
    if (!t->e->start) {
        memset(chains, 0, (size_t)(t->m * blocks * vectors * FV_W) * sizeof *chains);
        return;
    }
    for (int64_t block = 0; block < blocks; block++, j += vectors * FV_W)
        for (int64_t i = 0; i < t->m; i++)
#pragma GCC unroll 1
            for (int64_t v = 0; v < vectors; v++, chains += FV_W) {
                const int64_t at = j + v * FV_W, left = t->n - at;
                const float *from = t->e->start + i * t->e->ldstart + at;
                v_store(chains, left < FV_W ? v_load_n(from, left) : v_load(from));
                if (v % 2 == 1)
                    few_part(chains - FV_W);
            }
}

/* Chains, to where they go. */
static __attribute__((noinline)) void few_store(const few_args *t, int64_t j, int64_t blocks, int64_t vectors,
                                                float *chains) {
    const float *a = t->e->a, *b = t->e->b;
    for (int64_t block = 0; block < blocks; block++, j += vectors * FV_W)
        for (int64_t i = 0; i < t->m; i++) {
            const vf first = v_set1(a ? a[i] : 0.0f), second = v_set1(b ? b[i] : 1.0f);
            float *to = t->c + i * t->ldc + j;
            int64_t left = t->n - j;
#pragma GCC unroll 1
            for (int64_t v = 0; v < vectors; v++, chains += FV_W, to += FV_W, left -= FV_W) {
                if (v % 2 == 0 && vectors > 1)
                    few_join(chains);
                vf x = v_load(chains);
                if (b)
                    x = v_mul(x, second);
                if (a)
                    x = v_fma(left < FV_W ? v_load_n(to, left) : v_load(to), first, x);
                if (left < FV_W)
                    v_store_n(to, left, x);
                else
                    v_store(to, x);
            }
        }
}

/* The last columns, from j on, through steps [first, last). */
static __attribute__((noinline)) void few_copy(const few_args *t, int64_t j, int64_t first, int64_t last,
                                               FV_ELEMENT *copy) {
    for (int64_t s = first; s < last; s++, copy += FV_W)
        memcpy(copy, t->b + s * t->ldb + j, (size_t)(t->n - j) * sizeof *copy);
}

/* Two vectors of columns. Each is used by several rows: compilers would read it from memory for each of them. */
FEW_INLINE void few_two(const FV_ELEMENT *b, vf *x) {
#ifdef FV_PAIR
    FV_PAIR(v_load((const float *)(const void *)b), &x[0], &x[1]);
#else
    x[0] = FV_WIDEN(b);
    x[1] = FV_WIDEN(b + FV_W);
#endif
    __asm__("" : FV_KEEP(x[0]), FV_KEEP(x[1]));
}

/* Lines of B to fetch with each step. */
typedef struct few_lines {
    uintptr_t at, end;
    int64_t count;
} few_lines;

/* Where several blocks of columns go over the same few steps, the next steps are prefetched in the order in which they
 * lie. */
FEW_INLINE few_lines few_ahead(few_args *t, int64_t blocks, int64_t columns) {
    const int64_t bytes = FEW_STEPS * t->ldb * (int64_t)sizeof *t->b,
                  steps = blocks * ((t->m + FEW_ROWS - 1) / FEW_ROWS) * FEW_STEPS;
    const bool fetches = FV_W < 16 && blocks > 1 && t->ldb < 2 * blocks * columns;
    return (few_lines){0, 0, fetches ? (bytes / LINE_BYTES + steps - 1) / steps : 0};
}

/* Takes chains through steps. fetch: prefetches meanwhile, lines and from next on, which moves on. */
FEW_INLINE void few_steps(few_args *t, vf acc[FEW_ROWS][FEW_VECTORS], const float *a, const FV_ELEMENT *b, int64_t ldb,
                          int64_t steps, few_lines *lines, const char **next, const int rows, const int vectors,
                          const bool fetch) {
    const int64_t count = FV_W < 16 && lines->at < lines->end ? lines->count : 0;
    for (int64_t s = 0; s < steps; s++, b += ldb) {
        for (int64_t i = count; fetch && i > 0; i--, lines->at += LINE_BYTES)
            __builtin_prefetch((const char *)lines->at, 0, 3);
        if (fetch && __builtin_expect(*next != NULL, FV_W < 16)) {
#pragma GCC unroll 8
            for (int line = 0; line < vectors * FV_W * (int)sizeof *b; line += LINE_BYTES)
                __builtin_prefetch(*next + line, 0, 2);
            *next += vectors * FV_W * (int)sizeof *b;
            *next = *next < t->next_end ? *next : NULL;
        }
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v += 2) {
            vf x[2];
            if (vectors == 1)
                x[0] = FV_WIDEN(b);
            else
                few_two(b + v * FV_W, x);
#pragma GCC unroll 8
            for (int w = 0; w < 2 && w < vectors; w++)
#pragma GCC unroll 8
                for (int i = 0; i < rows; i++)
                    acc[i][v + w] = v_fma(v_set1(a[i * t->lda + s]), x[w], acc[i][v + w]);
        }
    }
}

/* Takes the chains of rows from row on through steps [first, last). */
FEW_INLINE void few_rows(few_args *t, int64_t row, const FV_ELEMENT *b, int64_t ldb, int64_t first, int64_t last,
                         few_lines *lines, float *chains, const int rows, const int vectors) {
    vf acc[FEW_ROWS][FEW_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            acc[i][v] = v_load(chains + (i * vectors + v) * FV_W);
    const float *a = t->a + row * t->lda + first;
    const char *next = row == 0 ? t->next : NULL;
    if (FV_W == 16 || next || lines->at < lines->end)
        few_steps(t, acc, a, b, ldb, last - first, lines, &next, rows, vectors, true);
    else
        few_steps(t, acc, a, b, ldb, last - first, lines, &next, rows, vectors, false);
    t->next = row == 0 ? next : t->next;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            v_store(chains + (i * vectors + v) * FV_W, acc[i][v]);
}

/* Multiplies `blocks` blocks of columns from j on; one of a single vector may have fewer. */
FEW_INLINE void few_columns(few_args *t, int64_t j, int64_t blocks, const int most, const int vectors) {
    _Alignas(LINE_BYTES) float chains[MOST_ROWS * MOST_COLUMNS]; /* no vector lies across lines */
    FV_ELEMENT copy[FEW_STEPS * FV_W];
    const int64_t columns = vectors * FV_W, block = t->m * columns;
    const bool part = vectors == 1 && t->n - j < FV_W;
    const bool whole = FV_WHOLE && t->m > FEW_ROWS && vectors > 1;
    const int three = most > 2 && vectors > 2 && (vectors == FEW_VECTORS || HALF_THREE); /* rows at once */
    const int64_t once = most > 2 && !three && t->m == 3 ? 2 : most;
    const int64_t steps = part || (!whole && (t->m > once || blocks > 1)) ? FEW_STEPS : t->k;
    few_start(t, j, blocks, vectors, chains);
    if (part)
        memset(copy, 0, sizeof copy);
    few_lines lines = !whole ? few_ahead(t, blocks, columns) : (few_lines){0};
    for (int64_t first = 0, last; first < t->k; first = last) {
        last = first + steps < t->k ? first + steps : t->k;
        lines.at = (uintptr_t)(t->b + j) + (uintptr_t)(last * t->ldb) * sizeof *t->b;
        lines.end = lines.count > 0 ? lines.at + (uintptr_t)(FEW_STEPS * t->ldb) * sizeof *t->b : 0;
        if (part)
            few_copy(t, j, first, last, copy);
        const FV_ELEMENT *b = part ? copy : t->b + first * t->ldb + j;
        for (int64_t i = 0; i < blocks; i++, b += columns) {
            float *at = chains + i * block;
            int64_t row = 0;
#define FEW_ROWS_OF(count) few_rows(t, row, b, part ? FV_W : t->ldb, first, last, &lines, at, count, vectors)
            for (; row + most <= t->m; row += most, at += most * columns)
                FEW_ROWS_OF(most);
            if (three && t->m - row == 3) {
                FEW_ROWS_OF(three ? 3 : 1);
                continue;
            }
            if (most > 2 && t->m - row >= 2) {
                FEW_ROWS_OF(2);
                row += 2;
                at += 2 * columns;
            }
            if (row < t->m)
                FEW_ROWS_OF(1);
#undef FEW_ROWS_OF
        }
    }
    few_store(t, j, blocks, vectors, chains);
}

/* Blocks; half of one; a quarter, which groups of 4-bit values have; and a vector. */
#define FEW_COLUMNS(name, rows, vectors)                                                                               \
    static __attribute__((noinline)) void name(few_args *t, int64_t j, int64_t blocks) {                               \
        few_columns(t, j, blocks, rows, vectors);                                                                      \
    }
FEW_COLUMNS(few_wide, FEW_ROWS, FEW_VECTORS)
FEW_COLUMNS(few_half, FEW_ROWS, 4)
FEW_COLUMNS(few_quarter, FEW_ROWS, 2)
FEW_COLUMNS(few_one, 2, 1)

#ifdef FV_STRIPS
#include "multiply_few_strips.h"
#endif

#ifdef FV_STEP_SCALES
#include "multiply_few_scales.h"
#endif

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    static const fv_epilogue store;
    assert(m >= 1 && m <= MOST_ROWS && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0 && (m == 1 || ldc >= n));
    assert(!epilogue || (!epilogue->row_max && (epilogue->b || !epilogue->a)));
    few_args t = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
    t.a = rows->data, t.b = operand->data, t.c = c, t.e = epilogue ? epilogue : &store;
    t.next = prefetch ? prefetch->next : NULL;
    t.next_end = prefetch ? prefetch->next_end : NULL;
#ifdef FV_STEP_SCALES
    float scaled[MOST_ROWS * FV_SEGMENT];
    assert(!operand->scales || k <= FV_SEGMENT);
    if (operand->scales)
        few_scale(&t, operand->scales, scaled);
#endif
    const int64_t columns = FEW_VECTORS * FV_W;
    int64_t j = 0;
#ifdef FV_STRIPS
    for (int64_t vectors; m > 2 && n - j >= 2 * FV_W; j += vectors * FV_W)
        few_strips(&t, j, vectors = (n - j < MOST_COLUMNS ? n - j : MOST_COLUMNS) / FV_W);
#endif
    for (int64_t blocks; n - j >= columns; j += blocks * columns) {
        blocks = (n - j < MOST_COLUMNS ? n - j : MOST_COLUMNS) / columns;
        few_wide(&t, j, blocks);
    }
    for (; FV_W == 16 && n - j >= 4 * FV_W; j += 4 * FV_W)
        few_half(&t, j, 1);
    for (; FV_W == 16 && sizeof(FV_ELEMENT) == 1 && n - j >= 2 * FV_W; j += 2 * FV_W)
        few_quarter(&t, j, 1);
    for (; j < n; j += FV_W)
        few_one(&t, j, 1);
}
