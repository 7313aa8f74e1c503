/* What gemm_tiles.S and its caller share: the operands of a call, and the sizes of tiles. */
#ifndef FV_GEMM_TILES_H
#define FV_GEMM_TILES_H

/* Where fields of struct gemm_tiles (body/gemm_tile.h) are, in bytes. */
#define GEMM_TILES_COUNT 0
#define GEMM_TILES_ROWS 8
#define GEMM_TILES_SIZE 16
#define GEMM_TILES_A 32
#define GEMM_TILES_LDA 40
#define GEMM_TILES_B 48
#define GEMM_TILES_LDB 56
#define GEMM_TILES_C 64
#define GEMM_TILES_LDC 72
#define GEMM_TILES_START 80
#define GEMM_TILES_LDSTART 88
#define GEMM_TILES_MERGE_A 96
#define GEMM_TILES_MERGE_B 104
#define GEMM_TILES_ROW_MAX 112
#define GEMM_TILES_ACCUMULATE_MAX 120
#define GEMM_TILES_NEXT 128
#define GEMM_TILES_NEXT_END 136
#define GEMM_TILES_PACE 144
#define GEMM_TILES_PREFETCH_B 152
#define GEMM_TILES_L2_DISTANCE 160
#define GEMM_TILES_LANES 168
#define GEMM_TILES_STEPS 176

#ifndef __ASSEMBLER__
_Static_assert(offsetof(gemm_tiles, count) == GEMM_TILES_COUNT, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, rows) == GEMM_TILES_ROWS, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, size) == GEMM_TILES_SIZE, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, a) == GEMM_TILES_A, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, lda) == GEMM_TILES_LDA, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, b) == GEMM_TILES_B, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, ldb) == GEMM_TILES_LDB, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, c) == GEMM_TILES_C, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, ldc) == GEMM_TILES_LDC, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, start) == GEMM_TILES_START, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, ldstart) == GEMM_TILES_LDSTART, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, merge_a) == GEMM_TILES_MERGE_A, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, merge_b) == GEMM_TILES_MERGE_B, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, row_max) == GEMM_TILES_ROW_MAX, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, accumulate_max) == GEMM_TILES_ACCUMULATE_MAX, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, next) == GEMM_TILES_NEXT, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, next_end) == GEMM_TILES_NEXT_END, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, pace) == GEMM_TILES_PACE, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, prefetch_b) == GEMM_TILES_PREFETCH_B, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, l2_distance) == GEMM_TILES_L2_DISTANCE, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, lanes) == GEMM_TILES_LANES, "as gemm_tiles.S has it");
_Static_assert(offsetof(gemm_tiles, steps) == GEMM_TILES_STEPS, "as gemm_tiles.S has it");

/* Multiplies t->count tiles of t->rows rows, one below the other; t then describes what is below them. At least 4 steps
 * of k. */
void fv_gemm_tiles_avx512(gemm_tiles *t);
void fv_gemm_tiles_bf16x2_avx512(gemm_tiles *t);

_Static_assert(UNROLL == 4 && FV_W == 16, "as gemm_tiles.S has it");
enum { GEMM_LEAST_STEPS = 4, GEMM_HALF = FV_W / 2, GEMM_BF16X2 = FV_PER_WORD == 2 };

/* The sizes of tiles: by the vectors of a row, and whether the last of them is a half one, of at most 8 columns; each
 * has all heights up to most, 0 if there are none. first: the number of its lowest tile in gemm_tiles.S. */
typedef struct gemm_heights {
    int8_t most, first;
} gemm_heights;

static const gemm_heights gemm_half[] = {[1] = {8, 0}, [3] = {GEMM_BF16X2 ? 0 : 8, 44}, [4] = {0, 0}};
static const gemm_heights gemm_whole[] = {
    [1] = {8, 8}, [2] = {GEMM_BF16X2 ? 0 : 14, 22}, [3] = {GEMM_BF16X2 ? 0 : 8, 36}, [4] = {6, 16}};

static const gemm_heights *gemm_sizes(int64_t columns) {
    return columns % FV_W ? &gemm_half[columns / FV_W + 1] : &gemm_whole[columns / FV_W];
}

/* The next strip is as wide as there are tiles for. Fewer steps of k are left to the body, a row and a vector at a
 * time. */
static int64_t gemm_strip(int64_t columns, int64_t k) {
    const int64_t left = columns < FV_NR ? columns : FV_NR, whole = left / FV_W;
    if (k < GEMM_LEAST_STEPS)
        return left < FV_W ? left : FV_W;
    if (left % FV_W <= GEMM_HALF && gemm_sizes(left)->most > 0)
        return left;
    if (whole == 0)
        return GEMM_HALF;
    return gemm_whole[whole].most > 0 ? whole * FV_W : FV_W;
}

static int64_t gemm_most_rows(int64_t columns, int64_t k) {
    return k < GEMM_LEAST_STEPS ? 1 : gemm_sizes(columns)->most;
}

static void gemm_height(gemm_tiles *t, int64_t rows) {
    if (t->count == 0)
        return;
    if (t->k < GEMM_LEAST_STEPS) {
        gemm_run(t, 1, 1, PART);
        return;
    }
    assert(1 <= rows && rows <= gemm_most_rows(t->n, t->k));
    t->rows = rows;
    t->size = gemm_sizes(t->n)->first + rows - 1;
    t->lanes = (1 << (t->n % FV_W)) - 1;
    t->steps = t->k - (t->merge_b ? 1 : rows * ((t->n + FV_W - 1) / FV_W) > 27 ? 3 : 4);
    if (GEMM_BF16X2)
        fv_gemm_tiles_bf16x2_avx512(t);
    else
        fv_gemm_tiles_avx512(t);
}
#endif

#endif
