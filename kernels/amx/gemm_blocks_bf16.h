/* gemm_blocks of bfloat16 by tiles (kernels.h has the contract): TDPBF16PS takes a block of FV_BLOCK elements, TILE words, and
 * adds what the arithmetic of bf16_tile adds.
 *
 * Instantiated by a file that includes a vocabulary of vectors and one of tiles (tiles.h) and defines FV_NAME. Four tiles of c, two by
 * two, so that each of a and b that is loaded is used twice:
 *
 *          B0  B1            a: rows of words          b: rows of pairs, as they lie in a panel
 *   A0     C0  C1
 *   A1     C2  C3
 *
 * Stay in tiles over all of k. What is merged goes through a buffer in the first-level cache, from which vectors read it, and so
 * do edges: rows, columns or words that do not fill a tile are copied to where zeros fill it.
 *
 * Bound: 16 cycles a tile_multiply, 8 a tile_load, 16 a tile_store, as published (docs/measurements.md, "gemm_blocks_bf16.h"); 4
 * products for 4 loads. Run only by the emulator so far. */
#include <assert.h>
#include <string.h>

/* Numbers of tiles: instructions have them in their text. */
#define C0 0
#define C1 1
#define C2 2
#define C3 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7

enum { SIDE = 2 * TILE };
_Static_assert(TILE * 2 == FV_BLOCK, "a tile's words are a block");

/* Part of a matrix that is one tile: rows x columns of it exist. */
typedef struct tile_part {
    const float *at;
    int64_t ld, rows, columns;
} tile_part;

/* The part itself if it is whole, else its copy among zeros. */
static inline tile_part tile_whole(tile_part x, float copy[TILE * TILE]) {
    if (x.rows >= TILE && x.columns >= TILE)
        return x;
    memset(copy, 0, sizeof(float[TILE * TILE]));
    for (int64_t i = 0; i < x.rows && i < TILE; i++)
        memcpy(copy + i * TILE, x.at + i * x.ld, (size_t)(x.columns < TILE ? x.columns : TILE) * sizeof(float));
    return (tile_part){copy, TILE, TILE, TILE};
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

/* The products of up to SIDE rows and columns, in tiles C0 to C3. high, wide: more than TILE of them. */
static inline void blocks_multiply(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t lda,
                                   const float *b, int64_t ldb) {
    const int high = rows > TILE, wide = columns > TILE;
    for (int64_t t = 0; t < k; t += TILE) {
        const int64_t words = k - t;
        TILE_LOAD_WHOLE(A0, ((tile_part){a + t, lda, rows, words}));
        TILE_LOAD_WHOLE(B0, ((tile_part){b + t * ldb, ldb, words, columns}));
        tile_multiply(C0, A0, B0);
        if (wide) {
            TILE_LOAD_WHOLE(B1, ((tile_part){b + t * ldb + TILE, ldb, words, columns - TILE}));
            tile_multiply(C1, A0, B1);
        }
        if (high) {
            TILE_LOAD_WHOLE(A1, ((tile_part){a + TILE * lda + t, lda, rows - TILE, words}));
            tile_multiply(C2, A1, B0);
            if (wide)
                tile_multiply(C3, A1, B1);
        }
    }
}

/* What chains begin with. */
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

static int64_t blocks_least(int64_t x) { return x < SIDE ? x : SIDE; }

void FV_NAME(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
             int64_t ldc, const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    static const fv_epilogue store;
    const fv_epilogue *e = epilogue ? epilogue : &store;
    float out[SIDE * SIDE] = {0};
    TILES_BEGIN();
    (void)prefetch;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0);
    assert(m == 1 || ldc >= n);
    assert(e->b || !e->a);
    assert(!e->row_max || (!e->b && n % FV_LANES == 0));
    for (int64_t j = 0; j < n; j += SIDE)
        for (int64_t i = 0; i < m; i += SIDE) {
            const int64_t rows = blocks_least(m - i), columns = blocks_least(n - j);
            float *to = c + i * ldc + j;
            blocks_begin(rows, columns, e->start ? e->start + i * e->ldstart + j : NULL, e->ldstart);
            blocks_multiply(rows, columns, k, a + i * lda, lda, b + j, ldb);
            if (rows == SIDE && columns == SIDE && !e->b)
                blocks_store(to, ldc);
            else {
                blocks_store(out, SIDE);
                blocks_merge(rows, columns, out, to, ldc, e->a ? e->a + i : NULL, e->b ? e->b + i : NULL);
            }
            if (e->row_max)
                blocks_row_max(rows, columns, to, ldc, e->row_max + i * FV_LANES, e->accumulate_max || j > 0);
        }
    TILES_END();
}
