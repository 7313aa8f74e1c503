/* gemm_thin: gemm of few rows whose B has 16 or 8 bits, widened in registers (kernels.h has the contract). FV_ELEMENT: that of B;
 * FV_WIDEN: FV_W of them as floats.
 *
 * Columns are taken by so many that their chains fill the registers. Bound: memory, or the products. Figures:
 * docs/measurements.md, "gemm_thin.h". */
#include "ahead.h"

#define THIN_INLINE static inline __attribute__((always_inline))

enum {
    CHAINS = FV_W == 8 ? 8 : 16, /* vectors of chains that registers hold beside B */
    MOST_ROWS = 8,
    LINE_BYTES = 64
};

typedef struct thin_args {
    int64_t m, k;
    const float *a;
    int64_t lda;
    const FV_ELEMENT *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    const fv_epilogue *e;
    const char *next, *next_end;
} thin_args;

/* Of a vector of columns, so many are there. */
THIN_INLINE vf thin_load(const float *p, int64_t n) { return n < FV_W ? v_load_n(p, n) : v_load(p); }

THIN_INLINE vf thin_widen(const FV_ELEMENT *b, int64_t n) {
    if (n >= FV_W)
        return FV_WIDEN(b);
    FV_ELEMENT copy[FV_W] = {0};
    memcpy(copy, b, (size_t)n * sizeof *b);
    return FV_WIDEN(copy);
}

/* Where the chains of so many rows begin, columns from j on; those of rows past the last are not stored. */
static __attribute__((noinline)) void thin_start(const thin_args *t, int64_t j, int64_t left, int rows, int vectors,
                                                 float *chains) {
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++, chains += FV_W)
            v_store(chains, t->e->start && i < t->m
                                ? thin_load(t->e->start + i * t->e->ldstart + j + v * FV_W, left - v * FV_W)
                                : v_set1(0.0f));
}

/* Chains, to where they go. */
static __attribute__((noinline)) void thin_store(const thin_args *t, int64_t j, int64_t left, int vectors,
                                                 const float *chains) {
    for (int64_t i = 0; i < t->m; i++)
        for (int v = 0; v < vectors; v++, chains += FV_W) {
            float *to = t->c + i * t->ldc + j + v * FV_W;
            const int64_t n = left - v * FV_W;
            vf x = v_load(chains);
            if (t->e->b)
                x = v_mul(x, v_set1(t->e->b[i]));
            if (t->e->a)
                x = v_fma(thin_load(to, n), v_set1(t->e->a[i]), x);
            if (n < FV_W)
                v_store_n(to, n, x);
            else
                v_store(to, x);
        }
}

/* Columns from j on, of which left are there: vectors * FV_W, or, if vectors is 1, fewer. */
THIN_INLINE void thin_columns(thin_args *t, int64_t j, int64_t left, const int rows, const int vectors) {
    vf acc[MOST_ROWS][CHAINS];
    const float *a[MOST_ROWS];
    float chains[CHAINS * FV_W];
    thin_start(t, j, left, rows, vectors, chains);
    for (int i = 0; i < rows; i++) {
        a[i] = t->a + (i < t->m ? i : t->m - 1) * t->lda;
        for (int v = 0; v < vectors; v++)
            acc[i][v] = v_load(chains + (i * vectors + v) * FV_W);
    }
    const FV_ELEMENT *b = t->b + j;
    for (int64_t s = 0; s < t->k; s++, b += t->ldb) {
        for (int v = 0; v < vectors; v++) {
            const vf x = vectors == 1 ? thin_widen(b, left) : FV_WIDEN(b + v * FV_W);
            for (int i = 0; i < rows; i++)
                acc[i][v] = v_fma(v_set1(a[i][s]), x, acc[i][v]);
        }
        if (!t->next)
            continue;
        for (int line = 0; line < (vectors * FV_W * (int)sizeof *b + LINE_BYTES - 1) / LINE_BYTES;
             line++, t->next += LINE_BYTES)
            __builtin_prefetch(t->next, 0, 2);
        t->next = t->next < t->next_end ? t->next : NULL;
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            v_store(chains + (i * vectors + v) * FV_W, acc[i][v]);
    thin_store(t, j, left, vectors, chains);
}

THIN_INLINE void thin_all(thin_args *t, int64_t n, const int rows) {
    const int vectors = CHAINS / rows < 8 ? CHAINS / rows : 8;
    int64_t j = 0;
    for (; j + vectors * FV_W <= n; j += vectors * FV_W)
        thin_columns(t, j, vectors * FV_W, rows, vectors);
    for (; vectors == 8 && j + 4 * FV_W <= n; j += 4 * FV_W) /* one chain alone would wait for itself */
        thin_columns(t, j, 4 * FV_W, rows, 4);
    for (; j < n; j += FV_W)
        thin_columns(t, j, n - j < FV_W ? n - j : FV_W, rows, 1);
}

static __attribute__((noinline)) void thin_1(thin_args *t, int64_t n) { thin_all(t, n, 1); }
static __attribute__((noinline)) void thin_2(thin_args *t, int64_t n) { thin_all(t, n, 2); }
static __attribute__((noinline)) void thin_4(thin_args *t, int64_t n) { thin_all(t, n, 4); }
static __attribute__((noinline)) void thin_8(thin_args *t, int64_t n) { thin_all(t, n, 8); }

void FV_NAME(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const FV_ELEMENT *b, int64_t ldb, float *c,
             int64_t ldc, const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    static const fv_epilogue store;
    assert(m >= 1 && m <= MOST_ROWS && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0 && (m == 1 || ldc >= n));
    assert(!epilogue || (!epilogue->row_max && (epilogue->b || !epilogue->a)));
    thin_args t = {m, k, a, lda, b, ldb, c, ldc, epilogue ? epilogue : &store, NULL, NULL};
    if (prefetch) {
        t.next = prefetch->next;
        t.next_end = prefetch->next_end;
    }
    switch (m) {
    case 1: thin_1(&t, n); break;
    case 2: thin_2(&t, n); break;
    case 3:
    case 4: thin_4(&t, n); break;
    default: thin_8(&t, n); break;
    }
}
