/* Products of many rows with weights as int8 in groups (groups.h has the formulas) by tiles: TDPBSSD multiplies signed
 * bytes of 16 rows and 64 channels with those of 16 columns.
 *
 * Instantiated by a file that includes a vocabulary of integers in vectors of 16 words and one of tiles (tiles.h). Four
 * tiles of sums, two by two, so that each tile that is loaded is used twice:
 *
 *          B0  B1         kind i8x2: A0 are bytes `high`, A1 `low`, of the same 16 rows: sum = 128 * high + low
 *   A0     C0  C1         kind i8: A0 and A1 are `low`, of 16 rows each
 *   A1     C2  C3         B: rows of words, as they lie
 *
 * For each turn of rows and each group, the bytes of A are copied to where tiles take them, in the first-level cache,
 * and serve all columns. There zeros fill rows and channels up to whole tiles, so that it does not matter what B has in
 * their place: the next group. Only where B ends within a tile, that goes through a copy. Sums stay in tiles for all
 * of a group, then go through a buffer, from which vectors make floats and add them to c.
 *
 * A block of groups stays in the first-level cache while all rows go through it; c is read once for each group.
 *
 * Bound: 16 cycles a tile_multiply_bytes. Figures: docs/lab/quantized.md. Run only by the emulator
 * so far. */
#include <assert.h>
#include <string.h>

enum {
    SIDE = 2 * TILE,
    HIGH_BITS = 7,
    BLOCK = 256,                         /* steps of a block of groups, or one group: 16 KiB of 64 columns */
    PARTS = FV_I8_CHANNELS / (4 * TILE), /* of a group, one for each tile */
    LINE = 64
};
_Static_assert(FV_W == TILE, "a row of a tile is a vector");

/* A call, and what is kept through it. */
typedef struct groups_work {
    int planes; /* bytes of A for each element: 2 of i8x2, 1 of i8 */
    const fv_rows *a;
    const fv_operand *b;
    float *c;
    int64_t ldc;
    const float *start;
    int64_t ldstart;
    const char *next, *next_end; /* what is fetched meanwhile, so much for each turn of rows and group */
    int64_t fetched;
    _Alignas(LINE) uint32_t bytes[PARTS][SIDE * TILE]; /* of A, of a group */
    uint32_t sums[SIDE][SIDE], rest[TILE][SIDE];       /* of B, where it ends */
} groups_work;

/* Where chains begin with +0. */
static const float groups_zero[SIDE];

static inline int64_t groups_least(int64_t x, int64_t y) { return x < y ? x : y; }

/* A group's words of a row, none where the row is missing, to rows of parts. */
static inline void groups_copy_row(int planes, const uint32_t *from, int64_t words, int64_t parts, uint32_t *to) {
    for (int64_t part = 0; part < parts; part++, to += SIDE * TILE, words -= planes * TILE, from += planes * TILE) {
        const vw first = w_load_n(from, words);
        if (planes == 1) {
            w_store(to, first);
            continue;
        }
        const vw second = w_load_n(from + TILE, words - TILE);
        w_store(to, w_high(first, second));
        w_store(to + TILE * TILE, w_low(first, second));
    }
}

/* Sums of a group, whose words of B begin at `from`, of which `left` rows are left in all. high: more than TILE rows of
 * bytes. */
static inline void groups_multiply(groups_work *w, const uint32_t *from, int64_t left, int64_t parts, int64_t columns,
                                   int high) {
    const int wide = columns > TILE;
    int64_t row = w->b->row;
    tile_zero(C0);
    tile_zero(C1);
    tile_zero(C2);
    tile_zero(C3);
    for (int64_t part = 0; part < parts; part++, from += TILE * row, left -= TILE) {
        const uint32_t *a = w->bytes[part];
        if (left < TILE) { /* the last */
            for (int64_t i = 0; i < left; i++)
                for (int64_t j = 0; j < columns; j += TILE)
                    w_store(&w->rest[i][j], w_load(from + i * row + j));
            from = w->rest[0];
            row = SIDE;
        }
        tile_load(A0, a, TILE);
        tile_load(B0, from, row);
        tile_multiply_bytes(C0, A0, B0);
        if (high) {
            tile_load(A1, a + TILE * TILE, TILE);
            tile_multiply_bytes(C2, A1, B0);
        }
        if (wide) {
            tile_load(B1, from + TILE, row);
            tile_multiply_bytes(C1, A0, B1);
            if (high)
                tile_multiply_bytes(C3, A1, B1);
        }
    }
    tile_store(C0, w->sums[0], SIDE);
    tile_store(C1, w->sums[0] + TILE, SIDE);
    tile_store(C2, w->sums[TILE], SIDE);
    tile_store(C3, w->sums[TILE] + TILE, SIDE);
}

/* They become floats, added to those at `from`. scales: of the first column. */
static inline void groups_end(const groups_work *w, const uint32_t *head, const float *scales, const float *from,
                              int64_t ldfrom, float *c, int64_t rows, int64_t columns) {
    const fv_group_extra extra = (fv_group_extra)w->b->group.extra;
    const float *extras = scales + w->b->width;
    for (int64_t i = 0; i < rows; i++, head += w->a->stride, from += ldfrom, c += w->ldc) {
        const fv_group_row *x = (const fv_group_row *)(const void *)head;
        const vf scale = v_set1(x->scale);
        for (int64_t j = 0; j < columns; j += FV_W) {
            vw sum = w_load(&w->sums[(w->planes - 1) * TILE + i][j]);
            if (w->planes > 1)
                sum = w_add(sum, w_left(w_load(&w->sums[i][j]), HIGH_BITS));
            if (extra == FV_GROUP_zero)
                sum = w_sub(sum, w_times(w_set1((uint32_t)x->sum), w_of_float(v_load(extras + j))));
            vf y = v_fma(w_float(sum), v_mul(v_load(scales + j), scale), v_load(from + j));
            if (extra == FV_GROUP_minimum)
                y = v_fma(v_set1((float)x->sum), v_mul(v_load(extras + j), scale), y);
            v_store(c + j, y);
        }
    }
}

/* A group of a turn of rows from `row` on. */
static void groups_turn(groups_work *w, int64_t row, int64_t group) {
    const fv_operand *b = w->b;
    const fv_kind kind = w->planes > 1 ? FV_KIND_i8x2 : FV_KIND_i8;
    const int64_t first = group * b->group.steps, steps = groups_least(b->group.steps, b->steps - first),
                  rows = groups_least(SIDE / w->planes, w->a->count - row),
                  words = fv_group_row_words(kind, steps) - FV_GROUP_HEAD,
                  parts = (words + w->planes * TILE - 1) / (w->planes * TILE),
                  chunk = b->group.gap ? b->group.steps * b->group.chunk : b->steps,
                  left = fv_group_rows(FV_FORMAT_i8g, groups_least(chunk - first % chunk, b->steps - first));
    const uint32_t *from = (const uint32_t *)b->data + first / 4 * b->row + fv_group_skipped(b->group, first);
    const uint32_t *head =
        (const uint32_t *)w->a->data + row * w->a->stride + group * fv_group_row_words(kind, b->group.steps);
    const float *scales = b->scales + b->first + group * fv_scales_row((fv_group_extra)b->group.extra, b->width);
    float *c = w->c + row * w->ldc;
    for (int64_t i = 0; i < w->fetched && w->next < w->next_end; i++, w->next += LINE)
        __builtin_prefetch(w->next, 0, 2);
    for (int64_t i = 0; i < SIDE / w->planes; i++)
        groups_copy_row(w->planes, head + FV_GROUP_HEAD + groups_least(i, rows - 1) * w->a->stride,
                        i < rows ? words : 0, parts, w->bytes[0] + i * TILE);
    for (int64_t j = 0; j < b->columns; j += SIDE) {
        const int64_t columns = groups_least(SIDE, b->columns - j);
        const float *add = group > 0 ? c + j : w->start ? w->start + row * w->ldstart + j : groups_zero;
        groups_multiply(w, from + j, left, parts, columns, w->planes > 1 || rows > TILE);
        groups_end(w, head, scales + j, add, group > 0 ? w->ldc : w->ldstart, c + j, rows, columns);
    }
}

void fv_multiply_groups_amx(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch, int planes) {
    const float *start = epilogue ? epilogue->start : NULL;
    const int64_t m = a->count, groups = (b->steps + b->group.steps - 1) / b->group.steps, rows_each = SIDE / planes,
                  block = b->group.steps < BLOCK ? BLOCK / b->group.steps : 1;
    assert(m >= 1 && b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width);
    assert(b->columns % FV_LANES == 0 && b->first % FV_LANES == 0 && (m == 1 || ldc >= b->columns));
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    assert(start != c || m == 1 || epilogue->ldstart == ldc);
    TILES_BEGIN();
    groups_work w;
    memset(w.rest, 0, sizeof w.rest);
    w.planes = planes;
    w.a = a;
    w.b = b;
    w.c = c;
    w.ldc = ldc;
    w.start = start;
    w.ldstart = start ? epilogue->ldstart : 0;
    w.next = w.next_end = NULL;
    w.fetched = 0;
    if (prefetch && prefetch->next) {
        w.next = prefetch->next;
        w.next_end = prefetch->next_end;
        w.fetched = (w.next_end - w.next) / (LINE * groups * ((m + rows_each - 1) / rows_each)) + 1;
    }
    for (int64_t first = 0; first < groups; first += block)
        for (int64_t row = 0; row < m; row += rows_each)
            for (int64_t group = first; group < groups_least(first + block, groups); group++)
                groups_turn(&w, row, group);
    TILES_END();
}
