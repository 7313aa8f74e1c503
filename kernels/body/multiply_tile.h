/* Tiles of the product of many rows, one below the other, all of one size that the compiler knows: its products, its
 * end, and what it prefetches meanwhile. multiply_many.h includes it and chooses the size.
 *
 * A tile takes the maxima of its rows, which softmax needs, from its accumulators, for a third of their cost in the
 * loop of exp (docs/lab/products.md).
 */
#include "prefetch_ahead.h"

#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

/* A step with a factor of A, a vector of B and an accumulator; other kinds of products define their own. */
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
    const float *start; /* of the first tile */
    int64_t ldstart;
    const float *merge_a, *merge_b; /* of the first row; merge_b NULL: store */
    float *row_max;                 /* of the first row, raised; NULL: no maxima */
    const float *next, *next_end;   /* prefetched meanwhile into the second-level cache; next NULL: nothing is */
    int64_t pace;                   /* lines of it in UNROLL steps of k */
    const float *prefetch_b;        /* B some steps ahead, prefetched into the first-level cache; NULL: it is not */
    int64_t l2_distance;            /* floats further on into the second-level cache; 0: it is there */
    int64_t lanes;                  /* of a vector that is not whole, a bit each: multiply_tiles.h's */
    int64_t steps;                  /* all but the last ones: multiply_tiles.h's */
    int64_t n;
} multiply_tiles;

/* Where chains begin with +0, with ldstart 0. */
static const float multiply_zeros[FV_NR];

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

/* Hides the value of a stride from the compiler, which would otherwise keep each address derived from it in a register,
 * and spill some to vector registers, whose reads compete with multiplications for a port. */
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

/* Prefetches some lines of what is next, until it ends; returns what is left of it. */
FV_ALWAYS_INLINE const float *multiply_prefetch_next(const multiply_tiles *t, const float *next) {
    if (!next)
        return next;
    int64_t lines = t->pace;
    do {
        __builtin_prefetch(next, 0, 2);
        next = fv_ahead(next, LINE);
        lines = multiply_opaque(lines - 1);
    } while (lines > 0);
    return (uintptr_t)next < (uintptr_t)t->next_end ? next : NULL;
}

/* Prefetches UNROLL steps of B, and those that many floats further on, which may be the same ones. */
FV_ALWAYS_INLINE const float *multiply_prefetch_b(const float *b, int64_t *ldb, int64_t l2_distance, const int nv) {
    for (int p = 0; p < UNROLL; p++, b = fv_ahead(b, *ldb), *ldb = multiply_opaque(*ldb))
        for (int j = 0; j < nv; j += LINE_VECTORS) {
            __builtin_prefetch(fv_ahead(b, j * FV_W), 0, 3);
            __builtin_prefetch(fv_ahead(b, j * FV_W + l2_distance), 0, 2);
        }
    return b;
}

FV_ALWAYS_INLINE void multiply_chain(vf acc[FV_MR][NV], multiply_tiles *t, const int mr, const int nv, const int part) {
    const int64_t left = multiply_left(t->n);
    int64_t lda = t->lda, ldb = t->ldb;
    const float *a = t->a, *b = t->b, *rows[GROUPS];
    for (int g = 0; g * GROUP_ROWS < mr; g++, a += GROUP_ROWS * lda, lda = multiply_opaque(lda))
        rows[g] = a;
    const float *ahead = t->prefetch_b, *next = t->next;
    int64_t k = t->k;
    for (; k >= UNROLL; k -= UNROLL) {
        if (__builtin_expect(ahead != NULL, 0)) /* out of the way: a branch taken costs where threads share a core */
            ahead = multiply_prefetch_b(ahead, &ldb, t->l2_distance, nv);
        next = multiply_prefetch_next(t, next);
        multiply_steps(acc, rows, &lda, &b, &ldb, left, UNROLL, mr, nv, part);
    }
    t->next = next;
    for (; k > 0; k = multiply_opaque(k - 1))
        multiply_steps(acc, rows, &lda, &b, &ldb, left, 1, mr, nv, part);
}
#endif

/* Raises the maxima of a row to its vectors. */
FV_ALWAYS_INLINE void multiply_row_max(const vf *acc, const int nv, float *row_max) {
    vf x = v_load(row_max);
    for (int j = 0; j < nv; j++)
        x = v_max(acc[j], x);
    v_store(row_max, x);
}

/* How often, at least, a tile prefetches lines of next. */
FV_ALWAYS_INLINE int64_t multiply_turns(int64_t k) { return k < LAST_STEPS ? 0 : (k - LAST_STEPS) / UNROLL; }

/* Stores a tile row by row, so that maxima are found while rows before are on their way to the cache. */
FV_ALWAYS_INLINE void multiply_store_tile(vf acc[FV_MR][NV], const multiply_tiles *t, float *row_max, const int mr,
                                          const int nv, const int part) {
    const int64_t left = multiply_left(t->n);
    int64_t ldc = t->ldc;
    float *c = t->c;
    for (int i = 0; i < mr; i++, c += ldc, ldc = multiply_opaque(ldc)) {
        if (row_max)
            multiply_row_max(acc[i], nv, row_max + i * FV_LANES);
        for (int j = 0; j < nv; j++)
            multiply_store(c + j * FV_W, left, j == nv - 1, part, acc[i][j]);
    }
}

/* The tiles, after which t is what is below them. */
FV_ALWAYS_INLINE void multiply_run(multiply_tiles *t, const int mr, const int nv, const int part) {
    const int64_t left = multiply_left(t->n);
    do {
        vf acc[FV_MR][NV];
        const float *start = t->start;
        int64_t ldstart = t->ldstart, ldc = t->ldc;
        for (int i = 0; i < mr; i++, start += ldstart, ldstart = multiply_opaque(ldstart))
            for (int j = 0; j < nv; j++)
                acc[i][j] = multiply_load(start + j * FV_W, left, j == nv - 1, part);
        t->start = start;
        multiply_chain(acc, t, mr, nv, part);
        if (t->merge_b) {
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++)
                    acc[i][j] = v_mul(acc[i][j], v_set1(t->merge_b[i]));
            t->merge_b += mr;
        }
        if (t->merge_a) {
            const float *row = t->c;
            for (int i = 0; i < mr; i++, row += ldc, ldc = multiply_opaque(ldc))
                for (int j = 0; j < nv; j++) {
                    const vf old = multiply_load(row + j * FV_W, left, j == nv - 1, part);
                    acc[i][j] = v_accumulate(old, v_set1(t->merge_a[i]), acc[i][j]);
                }
            t->merge_a += mr;
        }
        if (part == PART && FV_W < (int)FV_LANES) { /* without maxima, of which all of FV_LANES columns count */
            if (FV_W >= 8 && left == FV_W)
                multiply_store_tile(acc, t, NULL, mr, nv, WHOLE);
            else
                multiply_store_tile(acc, t, NULL, mr, nv, PART);
        } else if (!t->row_max)
            multiply_store_tile(acc, t, NULL, mr, nv, part);
        else {
            multiply_store_tile(acc, t, t->row_max, mr, nv, WHOLE);
            t->row_max += mr * FV_LANES;
        }
        t->a += mr * t->lda;
        t->c += mr * t->ldc;
    } while (--t->count > 0);
}
