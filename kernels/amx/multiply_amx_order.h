/* The product of bfloat16 in amx order by tiles (kernels.h has the contract): TDPBF16PS takes a block of FV_BLOCK
 * elements, TILE words, and adds what the arithmetic of bf16_tile adds.
 *
 * Instantiated by a file that includes a vocabulary of vectors and one of tiles (tiles.h) and defines FV_NAME, and
 * FV_OVERLAPPED, which does several products during a softmax: a step, one block of words of four tiles, between its
 * rows, so that the units of both have work within the core's window. Four tiles of c, two by two, so that each of a
 * and b that is loaded is used twice:
 *
 *          B0  B1            a: rows of words          b: rows of pairs, as they lie in a panel
 *   A0     C0  C1
 *   A1     C2  C3
 *
 * Stay in tiles over all of k. What is merged goes through a buffer in the first-level cache, from which vectors read
 * it, and so do edges: rows, columns or words that do not fill a tile are copied to where zeros fill it.
 *
 * Bound: 16 cycles a tile_multiply, 8 a tile_load, 16 a tile_store, as published (docs/lab/amx.md); 4 products for 4
 * loads. Run only by the emulator so far. */
#include <assert.h>
#include <string.h>

enum { SIDE = 2 * TILE };
_Static_assert(TILE * 2 == FV_BLOCK, "a tile's words are a block");

/* Part of a matrix that is one tile: rows x columns of it exist. */
typedef struct tile_part {
    const float *at;
    int64_t ld, rows, columns;
} tile_part;

static __attribute__((noinline)) tile_part tile_copy(const tile_part *x, float copy[TILE * TILE]) {
    memset(copy, 0, sizeof(float[TILE * TILE]));
    for (int64_t i = 0; i < x->rows && i < TILE; i++)
        memcpy(copy + i * TILE, x->at + i * x->ld, (size_t)(x->columns < TILE ? x->columns : TILE) * sizeof(float));
    return (tile_part){copy, TILE, TILE, TILE};
}

/* The part itself if it is whole, else its copy among zeros. */
static inline tile_part tile_whole(tile_part x, float copy[TILE * TILE]) {
    return x.rows >= TILE && x.columns >= TILE ? x : tile_copy(&x, copy);
}

#define TILE_LOAD_WHOLE(t, part)                                                                                       \
    do {                                                                                                               \
        float copy[TILE * TILE];                                                                                       \
        const tile_part whole = tile_whole(part, copy);                                                                \
        tile_load(t, whole.at, whole.ld);                                                                              \
    } while (0)

static inline vf blocks_load(const float *p, int64_t n) { return n >= FV_W ? v_load(p) : v_load_n(p, n); }

/* Rows of results to c, merged. */
static inline void blocks_merge(int64_t rows, int64_t columns, const float *from, float *c, int64_t ldc, const float *a,
                                const float *b) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += FV_W) {
            const int64_t left = columns - j;
            float *to = c + i * ldc + j;
            vf x = v_load(from + i * SIDE + j);
            if (b)
                x = v_mul(x, v_set1(b[i]));
            if (a)
                x = v_fma(blocks_load(to, left), v_set1(a[i]), x);
            if (left < FV_W)
                v_store_n(to, left, x);
            else
                v_store(to, x);
        }
}

/* Maxima of rows, whole groups of FV_LANES columns. */
static inline void blocks_row_max(int64_t rows, int64_t columns, const float *c, int64_t ldc, float *row_max,
                                  int accumulate_max) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t lane = 0; lane < FV_LANES; lane += FV_W) {
            float *to = row_max + i * FV_LANES + lane;
            vf x = accumulate_max ? v_load(to) : v_set1(-INFINITY);
            for (int64_t j = lane; j < columns; j += FV_LANES)
                x = v_max(v_load(c + i * ldc + j), x);
            v_store(to, x);
        }
}

/* A block of words of the product of up to SIDE rows and columns, into tiles C0 to C3. high, wide: more than TILE of
 * them. */
static inline void blocks_multiply(int64_t rows, int64_t columns, int64_t words, const float *a, int64_t lda,
                                   const float *b, int64_t ldb) {
    const int high = rows > TILE, wide = columns > TILE;
    TILE_LOAD_WHOLE(A0, ((tile_part){a, lda, rows, words}));
    TILE_LOAD_WHOLE(B0, ((tile_part){b, ldb, words, columns}));
    tile_multiply(C0, A0, B0);
    if (wide) {
        TILE_LOAD_WHOLE(B1, ((tile_part){b + TILE, ldb, words, columns - TILE}));
        tile_multiply(C1, A0, B1);
    }
    if (high) {
        TILE_LOAD_WHOLE(A1, ((tile_part){a + TILE * lda, lda, rows - TILE, words}));
        tile_multiply(C2, A1, B0);
        if (wide)
            tile_multiply(C3, A1, B1);
    }
}

/* Loads what the chains begin with. */
static inline void blocks_begin(int64_t rows, int64_t columns, const float *start, int64_t ld) {
    tile_zero(C0);
    tile_zero(C1);
    tile_zero(C2);
    tile_zero(C3);
    if (!start)
        return;
    TILE_LOAD_WHOLE(C0, ((tile_part){start, ld, rows, columns}));
    if (columns > TILE)
        TILE_LOAD_WHOLE(C1, ((tile_part){start + TILE, ld, rows, columns - TILE}));
    if (rows > TILE)
        TILE_LOAD_WHOLE(C2, ((tile_part){start + TILE * ld, ld, rows - TILE, columns}));
    if (rows > TILE && columns > TILE)
        TILE_LOAD_WHOLE(C3, ((tile_part){start + TILE * ld + TILE, ld, rows - TILE, columns - TILE}));
}

static inline void blocks_store(float *to, int64_t ld) {
    tile_store(C0, to, ld);
    tile_store(C1, to + TILE, ld);
    tile_store(C2, to + TILE * ld, ld);
    tile_store(C3, to + TILE * ld + TILE, ld);
}

/* Products on their way through the tiles, in order. */
typedef struct blocks_work {
    fv_overlapped overlapped; /* the first member */
    const fv_product *at;
    int64_t i, j, t; /* of *at: where its four tiles are, and the words of k that they have behind them */
    int64_t steps, done;
    float out[SIDE * SIDE];
} blocks_work;

static int64_t blocks_words(const fv_product *x) { return (x->b.steps + 1) / 2; }

static int64_t blocks_least(int64_t x) { return x < SIDE ? x : SIDE; }

/* Finishes the four tiles when all of k is in them. */
static inline void blocks_end(blocks_work *w, int64_t rows, int64_t columns) {
    const fv_product *x = w->at;
    const fv_epilogue *e = &x->epilogue;
    float *to = x->c + w->i * x->ldc + w->j;
    if (rows == SIDE && columns == SIDE && !e->b)
        blocks_store(to, x->ldc);
    else {
        blocks_store(w->out, SIDE);
        blocks_merge(rows, columns, w->out, to, x->ldc, e->a ? e->a + w->i : NULL, e->b ? e->b + w->i : NULL);
    }
    if (e->row_max)
        blocks_row_max(rows, columns, to, x->ldc, e->row_max + w->i * FV_LANES, e->accumulate_max || w->j > 0);
}

/* One block of words of the four tiles, and what is before the first and after the last. */
static void blocks_step(blocks_work *w) {
    const fv_product *x = w->at;
    const int64_t rows = blocks_least(x->a.count - w->i), columns = blocks_least(x->b.columns - w->j), t = w->t;
    const float *start = x->epilogue.start;
    if (t == 0)
        blocks_begin(rows, columns, start ? start + w->i * x->epilogue.ldstart + w->j : NULL, x->epilogue.ldstart);
    blocks_multiply(rows, columns, blocks_words(x) - t, (const float *)x->a.data + w->i * x->a.stride + t, x->a.stride,
                    (const float *)x->b.data + t * x->b.row + w->j, x->b.row);
    w->t = t + TILE;
    if (w->t < blocks_words(x))
        return;
    blocks_end(w, rows, columns);
    w->t = 0;
    w->i += SIDE;
    if (w->i < x->a.count)
        return;
    w->i = 0;
    w->j += SIDE;
    if (w->j < x->b.columns)
        return;
    w->j = 0;
    w->at++;
}

/* As large a share of all steps as is done of softmax. */
static void blocks_overlapped(fv_overlapped *overlapped, int64_t done, int64_t all) {
    blocks_work *w = (blocks_work *)(void *)overlapped;
    for (; w->done * all < done * w->steps; w->done++)
        blocks_step(w);
}

static int64_t blocks_ceil(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* All steps of products. */
static int64_t blocks_steps(const fv_product *x, int64_t count) {
    int64_t steps = 0;
    for (; count > 0; count--, x++) {
        assert(x->a.count >= 1 && x->b.columns >= 1 && x->b.steps >= 1 && x->a.stride >= 0 && x->b.row >= 0);
        assert(x->a.count == 1 || x->ldc >= x->b.columns);
        assert(x->epilogue.b || !x->epilogue.a);
        assert(!x->epilogue.row_max || (!x->epilogue.b && x->b.columns % FV_LANES == 0));
        steps += blocks_ceil(x->a.count, SIDE) * blocks_ceil(x->b.columns, SIDE) * blocks_ceil(blocks_words(x), TILE);
    }
    return steps;
}

void FV_OVERLAPPED(const fv_product *products, int64_t count, fv_softmax_bf16_fn *softmax,
                   const fv_softmax_f32_args *args) {
    blocks_work w = {.overlapped = {blocks_overlapped}, .at = products};
    TILES_BEGIN();
    w.steps = blocks_steps(products, count);
    if (softmax) {
        fv_softmax_f32_args own = *args;
        own.overlapped = &w.overlapped;
        softmax(&own);
    }
    blocks_overlapped(&w.overlapped, 1, 1);
    TILES_END();
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    fv_product x = {*a, *b, c, ldc, {0}};
    (void)prefetch;
    if (epilogue)
        x.epilogue = *epilogue;
    FV_OVERLAPPED(&x, 1, NULL, NULL);
}
