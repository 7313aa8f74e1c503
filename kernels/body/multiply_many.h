/* The micro-kernel of products of many rows, a register tile of FV_MR rows by FV_NR columns (kernels.h has the
 * contract).
 *
 * Instantiated by a file that includes a vocabulary header, defines FV_MR, FV_NR (a multiple of FV_W) and FV_NAME, and
 * then includes this. The tile is an array of vectors that the compiler keeps in registers, as its size is a constant
 * in each case of the switch below: FV_MR * FV_NR / FV_W accumulators, the vectors of a step of B or the broadcasts of
 * a step of A, whichever are fewer, and one of the other.
 *
 * The bound is the FMA units: per step of k a full tile does mr * nr / W multiply-adds for mr + nr / W loads. Every
 * height up to FV_MR has its own case, so an edge costs its own work; rows are dealt evenly to
 * tiles (20 rows by 14 are 10 + 10, not 14 + 6), so that no tile is too small to hide the latency of the FMA.
 * FV_MULTIPLY_TILES, if defined, names a file with tiles in assembly: its sizes, and the function that multiplies them.
 * FV_TILE_SIZES: one with tiles of this body that several rows share.
 *
 * As many ports of a core compute addresses as multiply, or the same ones do, and a core that another hardware thread
 * shares issues half as much: so of what is not a multiply-add there is as little as can be, by addresses that the
 * instructions form themselves, UNROLL steps of k a branch, and accumulators that stay where they are (v_accumulate).
 *
 * With operands in the first-level cache all that is missing to the FMA peak is a tile's beginning and end. B that
 * streams is prefetched into the second-level cache first, since the first one waits for fewer lines at once. Figures,
 * and what lost: docs/lab/products.md.
 */
#include "multiply_tile.h"

#if defined(FV_MULTIPLY_TILES)
#include FV_MULTIPLY_TILES
#elif defined(FV_TILE_SIZES)
#include FV_TILE_SIZES
#else
/* Columns of the next strip of `columns`. What is less than a tile is cut into strips of 4, 2 and 1 vectors, and one of
 * less than a vector, so that there are few widths of tiles. FV_FEW_WIDTHS: of one vector, whole or not. */
static int64_t multiply_strip(int64_t rows, int64_t columns, int64_t k) {
    (void)rows;
    (void)k;
    if (columns >= FV_NR || columns < FV_W)
        return columns < FV_NR ? columns : FV_NR;
#ifdef FV_FEW_WIDTHS
    return FV_W;
#endif
    int64_t vectors = 4;
    while (vectors * FV_W > columns)
        vectors /= 2;
    return vectors * FV_W;
}

static int64_t multiply_most_rows(int64_t columns, int64_t k) {
    (void)columns;
    (void)k;
    return FV_MR;
}

#ifndef FV_FEW_WIDTHS
FV_ALWAYS_INLINE void multiply_vectors(multiply_tiles *t, const int mr) {
    switch (t->n / FV_W) {
    case 1: multiply_run(t, mr, 1, WHOLE); break;
#if FV_NR > 2 * FV_W
    case 2: multiply_run(t, mr, 2, WHOLE); break;
#endif
#if FV_NR > 4 * FV_W
    case 4: multiply_run(t, mr, 4, WHOLE); break;
#endif
    default: multiply_run(t, mr, NV, WHOLE); break;
    }
}
#endif

FV_ALWAYS_INLINE void multiply_width(multiply_tiles *t, const int mr) {
#ifdef FV_FEW_WIDTHS
    if (t->n == FV_NR)
        multiply_run(t, mr, NV, WHOLE);
    else if (FV_W < 8 && t->n == FV_W) /* v_load_n takes less, then */
        multiply_run(t, mr, 1, WHOLE);
#else
    if (t->n % FV_W == 0)
        multiply_vectors(t, mr);
#endif
    else
        multiply_run(t, mr, 1, PART);
}

/* Multiplies t->count tiles of `rows` rows. */
static void multiply_height(multiply_tiles *t, int64_t rows) {
    switch (rows) {
    case 1: multiply_width(t, 1); break;
#if FV_MR >= 2
    case 2: multiply_width(t, 2); break;
#endif
#if FV_MR >= 3
    case 3: multiply_width(t, 3); break;
#endif
#if FV_MR >= 4
    case 4: multiply_width(t, 4); break;
#endif
#if FV_MR >= 5
    case 5: multiply_width(t, 5); break;
    case 6: multiply_width(t, 6); break;
#endif
#if FV_MR >= 7
    case 7: multiply_width(t, 7); break;
    case 8: multiply_width(t, 8); break;
#endif
#if FV_MR >= 9
    case 9: multiply_width(t, 9); break;
    case 10: multiply_width(t, 10); break;
    case 11: multiply_width(t, 11); break;
    case 12: multiply_width(t, 12); break;
#endif
#if FV_MR >= 13
    case 13: multiply_width(t, 13); break;
    case 14: multiply_width(t, 14); break;
#endif
    default: break;
    }
}
#endif

enum {
    STREAM_STEPS = 16,    /* steps of k by which a line is prefetched before a tile needs it, at least, */
    STREAM_FLOATS = 2048, /* and floats of B: a step of a narrow panel is soon over; */
    L2_STEPS = 16,        /* steps before that into the second-level cache, */
    L2_FLOATS = 2048,     /* and floats, where a line takes at least */
    L2_WORK = 7           /* multiply-adds */
};

/* Sets what the tiles prefetch, all strips together: lines that the caller names, evenly, so that memory is never idle;
 * and each vector of a B that streams through one tile, a few steps before the tile would wait for it. */
static void multiply_hints(multiply_tiles *t, const fv_prefetch *prefetch, int64_t rows, int64_t tiles,
                           int64_t strips) {
    const int64_t turns = strips * tiles * multiply_turns(t->k);
    t->next = turns > 0 && prefetch->next != prefetch->next_end ? prefetch->next : NULL;
    t->next_end = prefetch->next_end;
    t->pace = t->next ? (t->next_end - t->next + turns * LINE - 1) / (turns * LINE) : 0;
    if (!prefetch->streams || tiles > 1)
        return;
    int64_t ahead = STREAM_STEPS;
    if (t->ldb > 0 && ahead * t->ldb < STREAM_FLOATS)
        ahead = (STREAM_FLOATS + t->ldb - 1) / t->ldb;
    t->prefetch_b = fv_ahead(t->b, ahead * t->ldb);
    if (prefetch->next)
        return;
    t->l2_distance = L2_STEPS * t->ldb;
    if (rows * LINE_VECTORS >= L2_WORK && t->l2_distance < L2_FLOATS)
        t->l2_distance = L2_FLOATS;
}

static int64_t multiply_strips(int64_t rows, int64_t columns, int64_t k) {
    int64_t strips = 0;
    for (; columns > 0; columns -= multiply_strip(rows, columns, k))
        strips++;
    return strips;
}

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = multiply_words(operand->steps), lda = rows->stride,
                  ldb = operand->row;
    const float *a = rows->data;
    const float *b = operand->data;
    static const fv_epilogue store;
    const fv_epilogue *e = epilogue ? epilogue : &store;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0);
    assert(m == 1 || ldc >= n);
    assert(e->b || !e->a);
    assert(e->start != c || m == 1 || e->ldstart == ldc);
    assert(!e->row_max || ((FACTOR_MAX || !e->b) && n % FV_LANES == 0));
    assert(!prefetch || !prefetch->next || (uintptr_t)prefetch->next <= (uintptr_t)prefetch->next_end);
    for (int64_t i = 0; e->row_max && !e->accumulate_max && i < m * FV_LANES; i += FV_W)
        v_store(e->row_max + i, v_set1(-INFINITY));
    const float *next = NULL; /* what strips before have not prefetched */
    for (int64_t j = 0, width; j < n; j += width) {
        width = multiply_strip(m, n - j, k);
        const int64_t most = multiply_most_rows(width, k), tiles = (m + most - 1) / most, low = m / tiles;
        multiply_tiles t = {.count = m % tiles, /* tiles with a row more */
                            .k = k,
                            .a = a,
                            .lda = lda,
                            .b = b + j,
                            .ldb = ldb,
                            .c = c + j,
                            .ldc = ldc,
                            .start = e->start ? e->start + j : multiply_zeros,
                            .ldstart = e->start ? e->ldstart : 0,
                            .merge_a = e->a,
                            .merge_b = e->b,
                            .row_max = e->row_max,
                            .n = width};
        if (prefetch) {
            multiply_hints(&t, prefetch, m, tiles, multiply_strips(m, n, k));
            if (j > 0)
                t.next = next;
        }
        const int64_t lower = tiles - t.count;
        if (t.count > 0)
            multiply_height(&t, low + 1);
        t.count = lower;
        multiply_height(&t, low);
        next = t.next;
    }
}
