/* gemm_widen: products of few rows with weights of 16 bits, which are widened in registers (kernels.h has the contract).
 *
 * Instantiated by a file that includes a vocabulary of halves, defines FV_MR, FV_NR (a multiple of FV_LANES) and FV_NAME, for
 * bfloat16 FV_PAIRS, and then includes this. As in gemm_tile.h, the tile is an array of vectors that the compiler keeps in
 * registers: FV_MR * FV_NR / FV_W accumulators, the widened vectors of one step of B, one factor of A.
 *
 * The two elements of a word of bfloat16 are an AND and a shift: 32 of them in 64 bytes take no shuffle. The second elements
 * are loaded again, or both would not fit beside the accumulators.
 *
 * Bound: one row reads B from memory as fast as memory gives it; with more rows, from about four, the FMA units.
 * Figures: docs/measurements.md, "gemm_widen.h".
 */
#include <stdint.h>

#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef FV_PAIRS
typedef float widen_word;
enum { ELEMENTS = 2 };
FV_ALWAYS_INLINE vf widen_load(const widen_word *b, const int element) {
    return element ? v_pair_second(b) : v_pair_first(b);
}
#else
typedef uint16_t widen_word;
enum { ELEMENTS = 1 };
FV_ALWAYS_INLINE vf widen_load(const widen_word *b, const int element) {
    (void)element;
    return v_widen_f16(b);
}
#endif

enum {
    NV = FV_NR / FV_W,
#ifdef FV_PAIRS
    FEW_ROWS = 0,
    NARROW = FV_LANES,
#else
    FEW_ROWS = FV_W == 8 ? 2 : 0, /* so few take twice as many columns, where there are: more chains, and whole lines */
    NARROW = FV_W == 16 ? 2 * FV_W : FV_LANES, /* columns of what is less than a tile, if there are so many */
#endif
    MOST_NV = FEW_ROWS ? 2 * NV : NV,
    GROUP_ROWS = 3, /* rows of A that are addressed from one pointer */
    GROUPS = (FV_MR + GROUP_ROWS - 1) / GROUP_ROWS,
    UNROLL = FV_W >= 8 ? 4 : 1,    /* rows of B for each branch */
    LINE = 64,                     /* bytes of a cache line */
    NEAR = 4096,                   /* bytes of B that are prefetched into the first-level cache, */
    FAR = FV_W == 16 ? 2048 : 4096 /* and so many further on into the second */
};

typedef struct widen_tiles {
    int64_t m, n, k; /* of a strip: n <= FV_NR */
    const float *a;
    int64_t lda;
    const widen_word *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    const float *start; /* of the strip; NULL: chains begin with +0 */
    int64_t ldstart;
    int streams;                 /* one tile reads B, from beyond the caches */
    const char *next, *next_end; /* prefetched meanwhile */
    int64_t pace;                /* bytes of it in UNROLL rows of B */
} widen_tiles;

/* An address to fetch from, maybe past the array. */
FV_ALWAYS_INLINE const char *widen_ahead(const void *p, int64_t bytes) {
    return (const char *)((uintptr_t)p + (uintptr_t)bytes);
}

/* elements steps of k: what a row of B has. */
FV_ALWAYS_INLINE void widen_steps(vf acc[FV_MR][MOST_NV], const float *a[GROUPS], int64_t lda, const widen_word *b,
                                  const int elements, const int mr, const int nv) {
    for (int e = 0; e < elements; e++) {
        vf y[MOST_NV];
        for (int j = 0; j < nv; j++)
            y[j] = widen_load(b + j * FV_W, e);
        for (int i = 0; i < mr; i++) {
            const vf x = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * lda + e]);
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_accumulate(x, y[j], acc[i][j]);
        }
        __asm__("" : "+r"(b)); /* or compilers would keep the words, and spill */
    }
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        a[g] += elements;
}

FV_ALWAYS_INLINE void widen_prefetch(const widen_word *b, const int nv) {
    for (int at = 0; at < nv * FV_W * (int)sizeof *b; at += LINE) {
        __builtin_prefetch(widen_ahead(b, NEAR + at), 0, 3);
        __builtin_prefetch(widen_ahead(b, NEAR + FAR + at), 0, 2);
    }
}

FV_ALWAYS_INLINE void widen_tile(const widen_tiles *t, const float *a, const float *start, float *c, const char **next,
                                 const int mr, const int nv) {
    vf acc[FV_MR][MOST_NV];
    const float *rows[GROUPS];
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        rows[g] = a + g * GROUP_ROWS * t->lda;
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = start ? v_load(start + i * t->ldstart + j * FV_W) : v_set1(0.0f);
    const widen_word *b = t->b;
    int64_t k = t->k;
    for (; k >= UNROLL * ELEMENTS; k -= UNROLL * ELEMENTS) {
        for (int64_t at = 0; at < t->pace && *next < t->next_end; at += LINE, *next += LINE)
            __builtin_prefetch(*next, 0, 2);
        for (int p = 0; p < UNROLL; p++, b += t->ldb) {
            if (t->streams)
                widen_prefetch(b, nv);
            widen_steps(acc, rows, t->lda, b, ELEMENTS, mr, nv);
        }
    }
    for (; k >= ELEMENTS; k -= ELEMENTS, b += t->ldb)
        widen_steps(acc, rows, t->lda, b, ELEMENTS, mr, nv);
    if (k > 0) /* the first of a pair alone */
        widen_steps(acc, rows, t->lda, b, 1, mr, nv);
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            v_store(c + i * t->ldc + j * FV_W, acc[i][j]);
}

/* count tiles of mr rows, one below the other. */
FV_ALWAYS_INLINE void widen_run(widen_tiles *t, int64_t count, const int mr, const int nv) {
    for (; count > 0; count--, t->a += mr * t->lda, t->c += mr * t->ldc) {
        widen_tile(t, t->a, t->start, t->c, &t->next, mr, nv);
        t->start = t->start ? t->start + mr * t->ldstart : NULL;
    }
}

FV_ALWAYS_INLINE void widen_width(widen_tiles *t, int64_t count, const int mr) {
    switch (t->n / FV_W) {
#if FV_W == 16
    case 1: widen_run(t, count, mr, 1); break;
#ifndef FV_PAIRS
    case 2: widen_run(t, count, mr, 2); break;
#endif
#elif FV_W == 8
    case 2 * NV:
        if (mr <= FEW_ROWS)
            widen_run(t, count, mr, 2 * NV);
        break;
#endif
    default: widen_run(t, count, mr, NV); break;
    }
}

static void widen_height(widen_tiles *t, int64_t count, int64_t rows) {
    switch (rows) {
#if FV_MR >= 6
    case 6: widen_width(t, count, 6); break;
    case 5: widen_width(t, count, 5); break;
    case 4: widen_width(t, count, 4); break;
    case 3: widen_width(t, count, 3); break;
    case 2: widen_width(t, count, 2); break;
#endif
    default: widen_width(t, count, 1); break;
    }
}

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const float *a = rows->data;
    const widen_word *b = operand->data;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= n && n % FV_LANES == 0);
    assert(m == 1 || ldc >= n);
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    const int64_t tiles = (m + FV_MR - 1) / FV_MR, low = m / tiles, higher = m % tiles,
                  strip = m <= FEW_ROWS && n >= MOST_NV * FV_W ? MOST_NV * FV_W : FV_NR;
    const int64_t turns = tiles * ((n + strip - 1) / strip) * (k / (UNROLL * ELEMENTS));
    widen_tiles t = {.k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .ldstart = epilogue ? epilogue->ldstart : 0};
    if (prefetch) {
        t.streams = prefetch->streams && tiles == 1;
        t.next = prefetch->next;
        t.next_end = prefetch->next_end;
        t.pace = t.next && turns > 0 ? (t.next_end - t.next + turns * LINE - 1) / (turns * LINE) * LINE : 0;
    }
    for (int64_t j = 0; j < n; j += t.n) {
        t.m = m;
        t.n = n - j >= strip ? strip : n - j >= NARROW ? NARROW : FV_LANES;
        t.a = a;
        t.b = b + j;
        t.start = epilogue && epilogue->start ? epilogue->start + j : NULL;
        t.c = c + j;
        widen_height(&t, higher, low + 1);
        widen_height(&t, tiles - higher, low);
    }
}
