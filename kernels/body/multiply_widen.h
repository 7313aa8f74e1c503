/* Products of floats and an operand whose elements become floats in registers (kernels.h has the contract).
 *
 * Instantiated by a file that includes a vocabulary, defines FV_MR, FV_NR (a multiple of FV_LANES), FV_NAME and
 * FV_WORDS, the format's header (body/to_float/<format>.h), and includes this. As in multiply_tile.h, the tile is an
 * array of vectors that the compiler keeps in registers: FV_MR * FV_NR / FV_W accumulators, the widened vectors of one
 * step of B, one factor of A, or the other way round.
 *
 * The second elements of words are loaded again but for the fewest rows, as accumulators leave no registers for both.
 *
 * Bound: one row reads B from memory as fast as memory gives it; with more rows, from about four, the FMA units.
 * Figures: docs/lab/types.md.
 */
#include <stdbool.h>
#include <stdint.h>

#include FV_WORDS

#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    NV = FV_NR / FV_W,
    /* So few rows take twice as many columns, where there are: more chains, and whole lines. */
    FEW_ROWS = FV_W == 8 ? 2 : 0,
    NARROW = !SCALED && FV_W == 16 ? 2 * FV_W : FV_LANES, /* columns of less than a tile, if that many are left */
    MOST_NV = FEW_ROWS ? 2 * NV : NV,
    EDGE_ROWS = FV_NR > (int)FV_LANES ? 2 : FV_MR, /* of a tile of FV_LANES columns, which are the last: less text */
    GROUP_ROWS = 3,                                /* rows of A that are addressed from one pointer */
    GROUPS = (FV_MR + GROUP_ROWS - 1) / GROUP_ROWS,
    UNROLL = FV_W >= 8 ? 4 : 1,    /* rows of B for each branch; see widen_unroll() */
    LINE = 64,                     /* bytes of a cache line */
    NEAR = 4096,                   /* bytes of B that are prefetched into the first-level cache, */
    FAR = FV_W == 16 ? 2048 : 4096 /* further on into the second */
};

typedef struct widen_tiles {
    int64_t count, n, k; /* n, k: of a strip, n <= FV_NR */
    const float *a;
    int64_t lda;
    const format_word *b;
    int64_t ldb;
    const float *scales; /* of the strip's columns, where the format has them */
    float *c;
    int64_t ldc;
    const float *start; /* of the strip; NULL, until its tiles begin: chains begin with +0 */
    int64_t ldstart;
    int streams;                 /* one tile reads B, from beyond the caches */
    const char *next, *next_end; /* prefetched meanwhile */
    int64_t pace;                /* lines of it for each branch */
} widen_tiles;

/* Rows of B for each branch: many accumulators, of vectors of 16, hide more branches. With scales, compilers spill what
 * is left over from many steps of six rows. */
FV_ALWAYS_INLINE int widen_unroll(int64_t rows) {
    if (FV_W == 16)
        return rows > 2 ? 2 / PER_WORD : UNROLL;
    return FV_W == 8 && SCALED && rows > 5 ? 2 : UNROLL;
}

/* elements steps of k: what a row of B has. Registers hold a step of B or, with scales, one of A if that is less. */
FV_ALWAYS_INLINE void widen_steps(vf acc[FV_MR][MOST_NV], const float *a[GROUPS], int64_t lda, const format_word *b,
                                  const float *scales, const int elements, const int mr, const int nv) {
    const bool once = elements > 1 && mr <= FEW_ROWS && mr < nv; /* registers hold A, and a word is loaded once */
    if (once) {
        vf x[PER_WORD][FV_MR];
        for (int e = 0; e < elements; e++)
            for (int i = 0; i < mr; i++)
                x[e][i] = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * lda + e]);
        for (int j = 0; j < nv; j++)
            for (int e = 0; e < elements; e++) {
                const vf y = format_load(b + j * FV_W, scales, e);
                for (int i = 0; i < mr; i++)
                    acc[i][j] = v_accumulate(x[e][i], y, acc[i][j]);
            }
    }
    for (int e = 0; e < elements && !once; e++) {
        if (!SCALED || nv <= mr || mr == 1) {
            vf y[MOST_NV];
            for (int j = 0; j < nv; j++)
                y[j] = format_load(b + j * FV_W, SCALED ? scales + j * FV_W : scales, e);
            for (int i = 0; i < mr; i++) {
                const vf x = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * lda + e]);
                for (int j = 0; j < nv; j++)
                    acc[i][j] = v_accumulate(x, y[j], acc[i][j]);
            }
        } else {
            vf x[FV_MR];
            for (int i = 0; i < mr; i++)
                x[i] = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * lda + e]);
            for (int j = 0; j < nv; j++) {
                const vf y = format_load(b + j * FV_W, SCALED ? scales + j * FV_W : scales, e);
                for (int i = 0; i < mr; i++)
                    acc[i][j] = v_accumulate(x[i], y, acc[i][j]);
            }
        }
        __asm__("" : "+r"(b)); /* or compilers would keep the words, and spill */
    }
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        a[g] += elements;
}

FV_ALWAYS_INLINE void widen_prefetch(const format_word *b, const int nv) {
    for (int at = 0; at < nv * FV_W * (int)sizeof *b; at += LINE) {
        const uintptr_t ahead = (uintptr_t)b + (uintptr_t)(NEAR + at); /* maybe past the array */
        __builtin_prefetch((const void *)ahead, 0, 3);
        __builtin_prefetch((const void *)(ahead + FAR), 0, 2);
    }
}

FV_ALWAYS_INLINE void widen_tile(widen_tiles *t, const int mr, const int nv) {
    vf acc[FV_MR][MOST_NV];
    const float *rows[GROUPS];
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        rows[g] = t->a + g * GROUP_ROWS * t->lda;
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = v_load(t->start + i * t->ldstart + j * FV_W);
    const format_word *b = t->b;
    const int unroll = widen_unroll(mr);
    const char *next = t->next;
    int64_t k = t->k;
    for (; k >= unroll * PER_WORD; k -= unroll * PER_WORD) {
        if (__builtin_expect(next != NULL, 0)) {
            for (int64_t line = 0; line < t->pace; line++, next += LINE)
                __builtin_prefetch(next, 0, 2);
            next = (uintptr_t)next < (uintptr_t)t->next_end ? next : NULL;
        }
        for (int p = 0; p < unroll; p++, b += t->ldb) {
            if (t->streams)
                widen_prefetch(b, nv);
            widen_steps(acc, rows, t->lda, b, t->scales, PER_WORD, mr, nv);
        }
        __asm__("" : "+r"(k)); /* in a register: a branch that waits for memory costs 5% */
    }
#pragma GCC unroll 1 /* or gcc makes copies of what is left */
    for (; k >= PER_WORD; k -= PER_WORD, b += t->ldb)
        widen_steps(acc, rows, t->lda, b, t->scales, PER_WORD, mr, nv);
    t->next = next;
    if (k > 0) /* the first of a pair alone */
        widen_steps(acc, rows, t->lda, b, t->scales, 1, mr, nv);
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            v_store(t->c + i * t->ldc + j * FV_W, acc[i][j]);
}

/* t->count tiles of mr rows, one below the other; registers hold nothing between them. */
FV_ALWAYS_INLINE void widen_run(widen_tiles *t, const int mr, const int nv) {
    do {
        widen_tile(t, mr, nv);
        t->a += mr * t->lda;
        t->c += mr * t->ldc;
        t->start += mr * t->ldstart;
    } while (--t->count > 0);
}

FV_ALWAYS_INLINE void widen_width(widen_tiles *t, const int mr) {
    if (FEW_ROWS > 0 && t->n == MOST_NV * FV_W) {
        if (mr <= FEW_ROWS)
            widen_run(t, mr, MOST_NV);
    } else if (FV_NR > (int)FV_LANES && t->n == FV_LANES) {
        if (mr <= EDGE_ROWS)
            widen_run(t, mr, FV_LANES / FV_W);
    } else if (FV_NR > (int)NARROW && NARROW > (int)FV_LANES && t->n == NARROW)
        widen_run(t, mr, NARROW / FV_W);
    else
        widen_run(t, mr, NV);
}

/* count tiles of that many rows. */
static void widen_height(widen_tiles *t, int64_t count, int64_t rows) {
    static const float zeros[MOST_NV * FV_W];
    t->start = t->start ? t->start : zeros; /* with ldstart 0 */
    t->count = count;
    switch (rows) {
#if FV_MR >= 6
    case 6: widen_width(t, 6); break;
    case 5: widen_width(t, 5); break;
    case 4: widen_width(t, 4); break;
#endif
#if FV_MR >= 3
    case 3: widen_width(t, 3); break;
    case 2: widen_width(t, 2); break;
#endif
    default: widen_width(t, 1); break;
    }
}

/* Maxima of rows of c, which are in the first-level cache. */
static __attribute__((noinline)) void widen_maxima(int64_t m, int64_t n, const float *c, int64_t ldc,
                                                   const fv_epilogue *e) {
    for (int64_t i = 0; i < m; i++, c += ldc)
        for (int64_t lane = 0; lane < FV_LANES; lane += FV_W) {
            float *to = e->row_max + i * FV_LANES + lane;
            vf most = e->accumulate_max ? v_load(to) : v_set1(-INFINITY);
            for (int64_t j = lane; j < n; j += FV_LANES)
                most = v_max(v_load(c + j), most);
            v_store(to, most);
        }
}

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const int64_t width = operand->width ? operand->width : n;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && n % FV_LANES == 0);
    assert(ldb >= (n < width ? n : width) && width % FV_LANES == 0 && operand->first % FV_LANES == 0);
    assert(m == 1 || ldc >= n);
    assert(!epilogue || (!epilogue->a && !epilogue->b));
    const bool whole = FEW_ROWS > 0 && PER_WORD > 1 && width == MOST_NV * FV_W; /* a group of keys, read as it lies */
    const int64_t most = whole ? FEW_ROWS : FV_MR, tiles = (m + most - 1) / most,
                  strip = whole || (m <= FEW_ROWS && n >= MOST_NV * FV_W) ? MOST_NV * FV_W : FV_NR;
    const int64_t wide = width < strip ? width : strip; /* no strip goes on in the next panel */
    const int64_t turns = tiles * ((n + wide - 1) / wide) * (k / (widen_unroll(m / tiles) * PER_WORD));
    widen_tiles t = {
        .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .ldstart = epilogue && epilogue->start ? epilogue->ldstart : 0};
    if (prefetch) {
        t.streams = prefetch->streams && tiles == 1;
        t.next = turns > 0 && prefetch->next != prefetch->next_end ? prefetch->next : NULL;
        t.next_end = prefetch->next_end;
        t.pace = t.next ? (t.next_end - t.next + turns * LINE - 1) / (turns * LINE) : 0;
    }
    const format_word *panel = (const format_word *)operand->data - operand->first;
    for (int64_t j = 0, column = operand->first; j < n; j += t.n) {
        const int64_t left = width - column < n - j ? width - column : n - j;
        t.n = left >= strip ? strip : left >= NARROW ? NARROW : FV_LANES;
        t.a = rows->data;
        t.b = panel + column;
        t.scales = SCALED ? operand->scales + j : NULL;
        t.start = epilogue && epilogue->start ? epilogue->start + j : NULL;
        t.c = c + j;
        const int64_t high = t.n == FV_LANES && most > EDGE_ROWS ? EDGE_ROWS : most, count = (m + high - 1) / high;
        if (m % count > 0)
            widen_height(&t, m % count, m / count + 1);
        widen_height(&t, count - m % count, m / count);
        column += t.n;
        if (column == width) {
            column = 0;
            panel += operand->panel;
        }
    }
    if (epilogue && epilogue->row_max)
        widen_maxima(m, n, c, ldc, epilogue);
}
