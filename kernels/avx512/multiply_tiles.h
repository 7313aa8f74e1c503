/* Shared by multiply_tiles.S and its caller: the operands of a call, and the sizes of tiles. */
#ifndef FV_MULTIPLY_TILES_H
#define FV_MULTIPLY_TILES_H

/* Where fields of struct multiply_tiles (body/multiply_tile.h) are, in bytes. */
#define MULTIPLY_TILES_COUNT 0
#define MULTIPLY_TILES_ROWS 8
#define MULTIPLY_TILES_SIZE 16
#define MULTIPLY_TILES_A 32
#define MULTIPLY_TILES_LDA 40
#define MULTIPLY_TILES_B 48
#define MULTIPLY_TILES_LDB 56
#define MULTIPLY_TILES_C 64
#define MULTIPLY_TILES_LDC 72
#define MULTIPLY_TILES_START 80
#define MULTIPLY_TILES_LDSTART 88
#define MULTIPLY_TILES_MERGE_A 96
#define MULTIPLY_TILES_MERGE_B 104
#define MULTIPLY_TILES_ROW_MAX 112
#define MULTIPLY_TILES_NEXT 120
#define MULTIPLY_TILES_NEXT_END 128
#define MULTIPLY_TILES_PACE 136
#define MULTIPLY_TILES_PREFETCH_B 144
#define MULTIPLY_TILES_L2_DISTANCE 152
#define MULTIPLY_TILES_LANES 160
#define MULTIPLY_TILES_STEPS 168

#ifndef __ASSEMBLER__
_Static_assert(offsetof(multiply_tiles, count) == MULTIPLY_TILES_COUNT, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, rows) == MULTIPLY_TILES_ROWS, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, size) == MULTIPLY_TILES_SIZE, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, a) == MULTIPLY_TILES_A, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, lda) == MULTIPLY_TILES_LDA, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, b) == MULTIPLY_TILES_B, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, ldb) == MULTIPLY_TILES_LDB, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, c) == MULTIPLY_TILES_C, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, ldc) == MULTIPLY_TILES_LDC, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, start) == MULTIPLY_TILES_START, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, ldstart) == MULTIPLY_TILES_LDSTART, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, merge_a) == MULTIPLY_TILES_MERGE_A, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, merge_b) == MULTIPLY_TILES_MERGE_B, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, row_max) == MULTIPLY_TILES_ROW_MAX, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, next) == MULTIPLY_TILES_NEXT, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, next_end) == MULTIPLY_TILES_NEXT_END, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, pace) == MULTIPLY_TILES_PACE, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, prefetch_b) == MULTIPLY_TILES_PREFETCH_B, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, l2_distance) == MULTIPLY_TILES_L2_DISTANCE, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, lanes) == MULTIPLY_TILES_LANES, "as multiply_tiles.S has it");
_Static_assert(offsetof(multiply_tiles, steps) == MULTIPLY_TILES_STEPS, "as multiply_tiles.S has it");

/* Multiplies t->count tiles of t->rows rows, one below the other; t then describes what is below them. At least 4 steps
 * of k. */
void fv_multiply_tiles_avx512(multiply_tiles *t);
void fv_multiply_tiles_bf16x2_avx512(multiply_tiles *t);

_Static_assert(UNROLL == 4 && FV_W == 16, "as multiply_tiles.S has it");
enum {
    MULTIPLY_LEAST_STEPS = 4,
    MULTIPLY_BF16X2 = FV_PER_WORD == 2,
    MULTIPLY_PART = MULTIPLY_BF16X2 ? FV_W - 1 : FV_W / 2 /* columns, at most, of a vector that is not whole */
};

/* The sizes of tiles: by the vectors of a row, and whether the last of them is not whole; each has all heights from
 * least to most, 0 if there are none. first: the number of its lowest tile in multiply_tiles.S. */
typedef struct multiply_heights {
    int8_t least, most, first;
} multiply_heights;

static const multiply_heights multiply_part[] = {
    [1] = {1, 8, MULTIPLY_BF16X2 ? 0 : 28}, [3] = {7, MULTIPLY_BF16X2 ? 0 : 8, 36}, [4] = {0, 0, 0}};
static const multiply_heights multiply_whole[] = {
    [1] = {1, 8, 0}, [2] = {1, MULTIPLY_BF16X2 ? 0 : 14, 14}, [4] = {1, 6, 8}};

static const multiply_heights *multiply_sizes(int64_t columns) {
    return columns % FV_W ? &multiply_part[columns / FV_W + 1] : &multiply_whole[columns / FV_W];
}

/* Can the rows be dealt evenly to tiles of these heights? */
static int multiply_fits(const multiply_heights *heights, int64_t rows) {
    return heights->most > 0 && rows / ((rows + heights->most - 1) / heights->most) >= heights->least;
}

/* The next strip is as wide as there are tiles for. Fewer steps of k are left to the body, a row and a vector at a
 * time. */
static int64_t multiply_strip(int64_t rows, int64_t columns, int64_t k) {
    const int64_t left = columns < FV_NR ? columns : FV_NR, whole = left / FV_W;
    if (k < MULTIPLY_LEAST_STEPS)
        return left < FV_W ? left : FV_W;
    if (left % FV_W <= MULTIPLY_PART && multiply_fits(multiply_sizes(left), rows))
        return left;
    if (whole == 0)
        return MULTIPLY_PART;
    return multiply_whole[whole].most > 0 ? whole * FV_W : whole > 2 && multiply_whole[2].most > 0 ? 2 * FV_W : FV_W;
}

static int64_t multiply_most_rows(int64_t columns, int64_t k) {
    return k < MULTIPLY_LEAST_STEPS ? 1 : multiply_sizes(columns)->most;
}

static __attribute__((cold, noinline)) void multiply_short(multiply_tiles *t) { multiply_run(t, 1, 1, PART); }

static void multiply_height(multiply_tiles *t, int64_t rows) {
    if (t->count == 0)
        return;
    if (t->k < MULTIPLY_LEAST_STEPS) {
        multiply_short(t);
        return;
    }
    assert(multiply_sizes(t->n)->least <= rows && rows <= multiply_most_rows(t->n, t->k));
    t->rows = rows;
    t->size = multiply_sizes(t->n)->first + rows - multiply_sizes(t->n)->least;
    t->lanes = (1 << multiply_left(t->n)) - 1;
    if (t->start == multiply_zeros)
        t->start = NULL;
    t->steps = t->k - (t->merge_b ? 1 : rows * ((t->n + FV_W - 1) / FV_W) > 27 ? 3 : 4);
    if (MULTIPLY_BF16X2)
        fv_multiply_tiles_bf16x2_avx512(t);
    else
        fv_multiply_tiles_avx512(t);
}
#endif

#endif
