/* Tiles of the gemm, one below the other, all of one size that the compiler knows: its products, its end, and what it
 * prefetches meanwhile. multiply_many.h includes it and chooses the size.
 *
 * The maxima of its rows, which softmax needs, a tile takes from its accumulators, where they cost a third of what they
 * do beside exp (docs/measurements.md, "multiply_many.h").
 */
#include "ahead.h"

#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

/* What a step does with a factor of A, a vector of B and an accumulator; other kinds of products name their own. */
#ifndef FV_ACCUMULATE
#define FV_ACCUMULATE v_accumulate
#endif

/* Elements of a word of A and of B: steps of k that a step of the tile takes. */
#ifndef FV_PER_WORD
#define FV_PER_WORD 1
#endif
static inline int64_t multiply_words(int64_t steps) { return (steps + FV_PER_WORD - 1) / FV_PER_WORD; }

/* Has it maxima of what factors have multiplied? */
#ifdef FV_FACTOR_MAX
enum { FACTOR_MAX = 1 };
#else
enum { FACTOR_MAX = 0 };
#endif

enum {
    NV = FV_NR / FV_W,
    UNROLL = FV_W >= 8 ? 4 : 2, /* steps of k for each branch */
    LINE = 16,                  /* floats of a cache line */
    LINE_VECTORS = LINE / FV_W  /* (of at most that many floats) */
};

/* The last steps of k, at most, in which assembly does not prefetch what is next. */
#ifdef FV_MULTIPLY_TILES
enum { LAST_STEPS = 4 };
#else
enum { LAST_STEPS = 0 };
#endif

/* Tiles of the same height, one below the other. */
typedef struct multiply_tiles {
    int64_t count, rows, size; /* rows of a tile; size: multiply_tiles.h's */
    int64_t k;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    const float *start; /* of the first tile; NULL: chains begin with +0 */
    int64_t ldstart;
    const float *merge_a, *merge_b; /* of the first row; merge_b NULL: store */
    float *row_max;                 /* of the first row; NULL: no maxima */
    int64_t accumulate_max;         /* -1: they go on from what is there; 0: they do not */
    const float *next, *next_end;   /* prefetched meanwhile into the second-level cache; next NULL: nothing is */
    int64_t pace;                   /* lines of it in UNROLL steps of k */
    const float *prefetch_b;        /* B some steps ahead, prefetched into the first-level cache; NULL: it is not */
    int64_t l2_distance;            /* so many floats further on into the second-level cache; 0: it is there */
    int64_t lanes;                  /* of a vector that is not whole, a bit each: multiply_tiles.h's */
    int64_t steps;                  /* all but the last ones: multiply_tiles.h's */
    int64_t n;
} multiply_tiles;

/* Do all lanes of the last vector of a row count, or n of them, which may be all? */
enum { WHOLE, PART };

/* How many: 1 to FV_W. */
FV_ALWAYS_INLINE int64_t multiply_left(int64_t n) { return ((n - 1) & (FV_W - 1)) + 1; }

FV_ALWAYS_INLINE vf multiply_load(const float *p, int64_t n, int last, int part) {
    return part == PART && last ? v_load_n(p, n) : v_load(p);
}

FV_ALWAYS_INLINE void multiply_store(float *p, int64_t n, int last, int part, vf x) {
    if (part == PART && last)
        v_store_n(p, n, x);
    else
        v_store(p, x);
}

/* A stride that the compiler knows nothing about. It would keep each of the addresses derived from it in a register of
 * its own, or in a vector register where there are no more, from which they come back through a port that multiplies.
 */
FV_ALWAYS_INLINE int64_t multiply_opaque(int64_t stride) {
    __asm__("" : "+r"(stride));
    return stride;
}

/* acc += A B for one tile; FV_TILE_STEPS names a file that does it otherwise. */
#ifdef FV_TILE_STEPS
#include FV_TILE_STEPS
#else
enum { GROUP_ROWS = 3, GROUPS = (FV_MR + GROUP_ROWS - 1) / GROUP_ROWS };

/* count steps of k. Registers hold either a step of B or one of A, whichever is less, and one vector of the other. Rows
 * of A are addressed from one pointer for three: base, base + lda, base + 2 lda. */
FV_ALWAYS_INLINE void multiply_steps(vf acc[FV_MR][NV], const float *a[GROUPS], int64_t *lda, const float **b,
                                     int64_t *ldb, int64_t left, const int count, const int mr, const int nv,
                                     const int part) {
    for (int p = 0; p < count; p++) {
        if (nv <= mr) {
            vf y[NV];
            for (int j = 0; j < nv; j++)
                y[j] = multiply_load(*b + j * FV_W, left, j == nv - 1, part);
            for (int i = 0; i < mr; i++) {
                const vf x = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * *lda + p]);
                for (int j = 0; j < nv; j++)
                    acc[i][j] = FV_ACCUMULATE(x, y[j], acc[i][j]);
            }
        } else {
            vf x[FV_MR];
            for (int i = 0; i < mr; i++)
                x[i] = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * *lda + p]);
            for (int j = 0; j < nv; j++) {
                const vf y = multiply_load(*b + j * FV_W, left, j == nv - 1, part);
                for (int i = 0; i < mr; i++)
                    acc[i][j] = FV_ACCUMULATE(x[i], y, acc[i][j]);
            }
        }
        *b += *ldb;
        *lda = multiply_opaque(*lda);
        *ldb = multiply_opaque(*ldb);
    }
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        a[g] += count;
}

/* Prefetches UNROLL steps of B, and those that many floats further on, if any. */
FV_ALWAYS_INLINE const float *multiply_prefetch_b(const float *b, int64_t *ldb, int64_t l2_distance, const int nv) {
    for (int p = 0; p < UNROLL; p++, b = fv_ahead(b, *ldb), *ldb = multiply_opaque(*ldb))
        for (int j = 0; j < nv; j += LINE_VECTORS) {
            __builtin_prefetch(fv_ahead(b, j * FV_W), 0, 3);
            if (l2_distance)
                __builtin_prefetch(fv_ahead(b, j * FV_W + l2_distance), 0, 2);
        }
    return b;
}

FV_ALWAYS_INLINE void multiply_chain(vf acc[FV_MR][NV], const float *a, const multiply_tiles *t, const float *next,
                                     const int mr, const int nv, const int part) {
    const int64_t left = multiply_left(t->n);
    int64_t lda = t->lda, ldb = t->ldb;
    const float *b = t->b, *rows[GROUPS];
    for (int g = 0; g * GROUP_ROWS < mr; g++, a += GROUP_ROWS * lda, lda = multiply_opaque(lda))
        rows[g] = a;
    const float *ahead = t->prefetch_b;
    int64_t k = t->k;
    for (; k >= UNROLL; k -= UNROLL) {
        if (ahead && t->l2_distance)
            ahead = multiply_prefetch_b(ahead, &ldb, t->l2_distance, nv);
        else if (ahead)
            ahead = multiply_prefetch_b(ahead, &ldb, 0, nv);
        if (next)
            for (int64_t line = 0; line < t->pace; line++, next = fv_ahead(next, LINE))
                __builtin_prefetch(next, 0, 2);
        multiply_steps(acc, rows, &lda, &b, &ldb, left, UNROLL, mr, nv, part);
    }
    for (; k > 0; k--)
        multiply_steps(acc, rows, &lda, &b, &ldb, left, 1, mr, nv, part);
}
#endif

/* Raises the maxima of a row to its vectors, or begins them. */
FV_ALWAYS_INLINE void multiply_row_max(const vf *acc, const int nv, float *row_max, const int accumulate_max) {
    vf x = v_max(acc[0], accumulate_max ? v_load(row_max) : v_set1(-INFINITY));
    for (int j = 1; j < nv; j++)
        x = v_max(acc[j], x);
    v_store(row_max, x);
    for (int lane = FV_W; lane < FV_LANES && !accumulate_max; lane += FV_W)
        v_store(row_max + lane, v_set1(-INFINITY));
}

/* Stores a tile row by row, so that maxima are found while rows before are on their way to the cache; gives the row
 * after it. */
FV_ALWAYS_INLINE float *multiply_store_tile(vf acc[FV_MR][NV], const multiply_tiles *t, float *c, float *row_max,
                                            const int mr, const int nv, const int part, const int accumulate_max) {
    const int64_t left = multiply_left(t->n);
    int64_t ldc = t->ldc;
    for (int i = 0; i < mr; i++, c += ldc, ldc = multiply_opaque(ldc)) {
        if (row_max)
            multiply_row_max(acc[i], nv, row_max + i * FV_LANES, accumulate_max);
        for (int j = 0; j < nv; j++)
            multiply_store(c + j * FV_W, left, j == nv - 1, part, acc[i][j]);
    }
    return c;
}

/* How often, at least, a tile prefetches lines of next. */
FV_ALWAYS_INLINE int64_t multiply_turns(int64_t k) { return k < LAST_STEPS ? 0 : (k - LAST_STEPS) / UNROLL; }

/* What is left of next after so many tiles. */
FV_ALWAYS_INLINE const float *multiply_next(const multiply_tiles *t, const float *next, int64_t tiles) {
    const int64_t floats = tiles * multiply_turns(t->k) * t->pace * LINE;
    return next && t->next_end - next > floats ? fv_ahead(next, floats) : NULL;
}

/* Goes on to what comes after so many tiles. */
FV_ALWAYS_INLINE void multiply_pass(multiply_tiles *t, const int mr, int64_t tiles) {
    const int64_t rows = tiles * mr;
    t->a += rows * t->lda;
    t->c += rows * t->ldc;
    t->start = t->start ? t->start + rows * t->ldstart : NULL;
    t->merge_a = t->merge_a ? t->merge_a + rows : NULL;
    t->merge_b = t->merge_b ? t->merge_b + rows : NULL;
    t->row_max = t->row_max ? t->row_max + rows * FV_LANES : NULL;
    t->next = multiply_next(t, t->next, tiles);
}

FV_ALWAYS_INLINE void multiply_run(multiply_tiles *t, const int mr, const int nv, const int part) {
    const int64_t left = multiply_left(t->n);
    const float *a = t->a, *start = t->start, *merge_a = t->merge_a, *merge_b = t->merge_b;
    float *c = t->c, *row_max = t->row_max;
    const float *next = t->next;
    int64_t ldc = t->ldc, ldstart = t->ldstart;
    for (int64_t tile = t->count; tile > 0; tile--, a += mr * t->lda) {
        vf acc[FV_MR][NV];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_set1(0.0f);
        for (int i = 0; i < mr && start; i++, start += ldstart, ldstart = multiply_opaque(ldstart))
            for (int j = 0; j < nv; j++)
                acc[i][j] = multiply_load(start + j * FV_W, left, j == nv - 1, part);
        multiply_chain(acc, a, t, next, mr, nv, part);
        next = multiply_next(t, next, 1);
        if (merge_b) {
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++)
                    acc[i][j] = v_mul(acc[i][j], v_set1(merge_b[i]));
            merge_b += mr;
        }
        if (merge_a) {
            const float *row = c;
            for (int i = 0; i < mr; i++, row += ldc, ldc = multiply_opaque(ldc))
                for (int j = 0; j < nv; j++) {
                    const vf old = multiply_load(row + j * FV_W, left, j == nv - 1, part);
                    acc[i][j] = v_accumulate(old, v_set1(merge_a[i]), acc[i][j]);
                }
            merge_a += mr;
        }
        if (!row_max || (part == PART && FV_W < (int)FV_LANES)) /* with maxima all of FV_LANES columns count */
            c = multiply_store_tile(acc, t, c, NULL, mr, nv, part, 0);
        else {
            c = t->accumulate_max ? multiply_store_tile(acc, t, c, row_max, mr, nv, WHOLE, 1)
                                  : multiply_store_tile(acc, t, c, row_max, mr, nv, WHOLE, 0);
            row_max += mr * FV_LANES;
        }
    }
    multiply_pass(t, mr, t->count);
}
