/* Products of few rows, B as it lies, widened in registers (kernels.h has the contract). FV_ELEMENT: that of B;
 * FV_WIDEN: FV_W of them as floats; FV_PAIR: parts words of two, which is cheaper. FV_MANY_ROWS, if defined: how many
 * rows share each widened element in calls of more than two rows, or of fewer columns than a block of few rows has.
 * FV_STEP_SCALES, if defined: B has scales of steps, or NULL.
 *
 * A block has as many columns and rows as fill the registers with chains. Steps of B are few enough to be read in the
 * order of memory. Columns that fill no block are taken by vectors; less than a vector is copied, a few steps at a
 * time, and padded with zeros. Bound: memory, or the products. Figures: docs/lab/decode.md. */
#ifdef __aarch64__
#define FV_KEEP(x) "+w"(x)
#else
#define FV_KEEP(x) "+v"(x)
#endif
#include <stdbool.h>
#include <stdint.h>

#define FEW_INLINE static inline __attribute__((always_inline))

enum {
    MOST_ROWS = 8,
    LINE_BYTES = 64,
    MOST_COLUMNS = 128, /* whose chains are kept: as most heads have */
};

/* How many rows and vectors of columns have their chains in registers. Few rows take a few steps of B over all columns,
 * so that B is read from memory in the order in which it lies. More rows take all steps over a few columns, on the
 * tiers where that is faster. */
enum {
    FEW_ROWS = 2,
    FEW_VECTORS = FV_W == 8 ? 4 : 8,
    FEW_STEPS = FV_W == 16 ? 16 : 8,
#ifdef FV_MANY_ROWS
    MANY_ROWS = FV_MANY_ROWS,
    MANY = 1,
#else
    MANY_ROWS = FEW_ROWS,
    MANY = 0,
#endif
    MANY_VECTORS = 4
};

typedef struct few_args {
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    const FV_ELEMENT *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
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
    const bool fetches = blocks > 1 && t->ldb < 2 * blocks * columns;
    return (few_lines){0, 0, fetches ? (bytes / LINE_BYTES + steps - 1) / steps : 0};
}

/* Takes chains through steps; fetch: prefetches meanwhile, lines and from next on, which moves on. */
FEW_INLINE void few_steps(few_args *t, vf acc[MOST_ROWS][FEW_VECTORS], const float *a, const FV_ELEMENT *b, int64_t ldb,
                          int64_t steps, few_lines *lines, const char **next, const int rows, const int vectors,
                          const bool fetch) {
    const int64_t count = lines->at < lines->end ? lines->count : 0;
    for (int64_t s = 0; s < steps; s++, b += ldb) {
        if (fetch) {
            for (int64_t i = count; i > 0; i--, lines->at += LINE_BYTES)
                __builtin_prefetch((const char *)lines->at, 0, 3);
            if (*next) {
                for (int line = 0; line < vectors * FV_W * (int)sizeof *b; line += LINE_BYTES)
                    __builtin_prefetch(*next + line, 0, 2);
                *next += vectors * FV_W * (int)sizeof *b;
                *next = *next < t->next_end ? *next : NULL;
            }
        }
        for (int v = 0; v < vectors; v += 2) {
            vf x[2];
            if (vectors == 1)
                x[0] = FV_WIDEN(b);
            else
                few_two(b + v * FV_W, x);
            for (int w = 0; w < 2 && w < vectors; w++)
                for (int i = 0; i < rows; i++)
                    acc[i][v + w] = v_fma(v_set1(a[i * t->lda + s]), x[w], acc[i][v + w]);
        }
    }
}

/* Takes the chains of rows from row on through steps [first, last). */
FEW_INLINE void few_rows(few_args *t, int64_t row, const FV_ELEMENT *b, int64_t ldb, int64_t first, int64_t last,
                         few_lines *lines, float *chains, const int rows, const int vectors) {
    vf acc[MOST_ROWS][FEW_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            acc[i][v] = v_load(chains + (i * vectors + v) * FV_W);
    const float *a = t->a + row * t->lda + first;
    const char *next = row == 0 ? t->next : NULL;
    if (next || lines->at < lines->end) {
        few_steps(t, acc, a, b, ldb, last - first, lines, &next, rows, vectors, true);
        t->next = row == 0 ? next : t->next;
    } else
        few_steps(t, acc, a, b, ldb, last - first, lines, &next, rows, vectors, false);
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            v_store(chains + (i * vectors + v) * FV_W, acc[i][v]);
}

/* Multiplies `blocks` blocks of columns from j on; one of a single vector may have fewer. */
FEW_INLINE void few_columns(few_args *t, int64_t j, int64_t blocks, const int most, const int vectors, const bool all) {
    _Alignas(LINE_BYTES) float chains[MOST_ROWS * MOST_COLUMNS]; /* no vector lies across lines */
    FV_ELEMENT copy[FEW_STEPS * FV_W];
    const int64_t columns = vectors * FV_W, block = t->m * columns;
    const bool part = vectors == 1 && t->n - j < FV_W;
    const int64_t steps = part || (!all && (t->m > most || blocks > 1)) ? FEW_STEPS : t->k;
    few_start(t, j, blocks, vectors, chains);
    if (part)
        memset(copy, 0, sizeof copy);
    few_lines lines = !all ? few_ahead(t, blocks, columns) : (few_lines){0};
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
            if (most > 2 && t->m - row == 3)
                FEW_ROWS_OF(most > 2 ? 3 : 1);
            else if (most > 2 && t->m - row == 2)
                FEW_ROWS_OF(2);
            else if (row < t->m)
                FEW_ROWS_OF(1);
#undef FEW_ROWS_OF
        }
    }
    few_store(t, j, blocks, vectors, chains);
}

static __attribute__((noinline)) void few_wide(few_args *t, int64_t j, int64_t blocks) {
    few_columns(t, j, blocks, FEW_ROWS, FEW_VECTORS, false);
}
static __attribute__((noinline)) void few_many(few_args *t, int64_t j, int64_t blocks) {
    few_columns(t, j, blocks, MANY_ROWS, MANY_VECTORS, true);
}
/* Groups of 4-bit values have so few columns. */
enum { HALF_VECTORS = MANY_VECTORS / 2, HALF = MANY && FV_W == 16 && sizeof(FV_ELEMENT) == 1 };
static __attribute__((noinline)) void few_half(few_args *t, int64_t j) {
    few_columns(t, j, 1, MANY_ROWS, HALF_VECTORS, true);
}
static __attribute__((noinline)) void few_one(few_args *t, int64_t j) { few_columns(t, j, 1, FEW_ROWS, 1, false); }

#ifdef FV_STEP_SCALES
/* Rows of A times the scales of steps. What is -0 stays that: its scale may be anything. */
static __attribute__((noinline)) void few_scale(few_args *t, const float *scales, float *scaled) {
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t s = 0; s < t->k; s += FV_W) {
            const int64_t left = t->k - s;
            const float *from = t->a + i * t->lda + s;
            const vf a = left < FV_W ? v_load_n(from, left) : v_load(from),
                     scale = left < FV_W ? v_load_n(scales + s, left) : v_load(scales + s);
            const vm positive = v_not_lt(v_with_sign(v_set1(-1.0f), a), v_set1(0.0f));
            v_store(scaled + i * FV_SEGMENT + s,
                    v_select(v_eq(a, v_set1(0.0f)), v_mul_where(positive, a, scale), v_mul(a, scale)));
        }
    t->a = scaled;
    t->lda = FV_SEGMENT;
}
#endif

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const float *a = rows->data;
    const FV_ELEMENT *b = operand->data;
    static const fv_epilogue store;
    assert(m >= 1 && m <= MOST_ROWS && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0 && (m == 1 || ldc >= n));
    assert(!epilogue || (!epilogue->row_max && (epilogue->b || !epilogue->a)));
    few_args t = {m,
                  n,
                  k,
                  a,
                  lda,
                  b,
                  ldb,
                  c,
                  ldc,
                  epilogue ? epilogue : &store,
                  prefetch ? prefetch->next : NULL,
                  prefetch ? prefetch->next_end : NULL};
#ifdef FV_STEP_SCALES
    float scaled[MOST_ROWS * FV_SEGMENT];
    assert(!operand->scales || k <= FV_SEGMENT);
    if (operand->scales)
        few_scale(&t, operand->scales, scaled);
#endif
    int64_t j = 0;
    for (int64_t columns; j + FV_W <= n; j += columns) {
        const bool many = MANY && (m > FEW_ROWS || n - j < FEW_VECTORS * FV_W);
        columns = (many ? MANY_VECTORS : FEW_VECTORS) * FV_W;
        if (n - j < columns)
            break;
        const int64_t blocks = (n - j < MOST_COLUMNS ? n - j : MOST_COLUMNS) / columns;
        (many ? few_many : few_wide)(&t, j, blocks);
        columns *= blocks;
    }
    for (; HALF && n - j >= HALF_VECTORS * FV_W; j += HALF_VECTORS * FV_W)
        few_half(&t, j);
    for (; j < n; j += FV_W)
        few_one(&t, j);
}
