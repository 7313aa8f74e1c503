/* Scores of few rows from int8 keys in panels of FV_KEY_GROUP (int8.h has the formulas): words of four channels are
 * multiplied and added to sums of 32 bits by the tier's units (simd/int8_*.h).
 * Bound: memory, or the products; of AVX-512 on Zen 4 loads, one a cycle. Figures: docs/lab/decode.md. */
#include "score_store.h"

#include <stdbool.h>

enum {
    VECTORS = FV_KEY_GROUP / FV_W,              /* of a panel */
    LANES = FV_LANES / FV_W,                    /* vectors of maxima */
    ROWS = FV_W >= 8 ? 4 : 1,                   /* at once */
    MOST_SUMS = FV_W == 8 ? 8 : ROWS * VECTORS, /* that registers hold */
    LINE_BYTES = 64
};

typedef struct i8_call {
    const fv_rows *a;
    const fv_operand *b;
    float *c;
    int64_t ldc;
    const fv_epilogue *e;
} i8_call;

/* Sums of a panel become scores, those of its columns from first to end, and their maxima: rows from row to last, of
 * each a vector after the other. */
static __attribute__((noinline)) void i8_store(const i8_call *x, int64_t column, int64_t row, int64_t last,
                                               const float *sums) {
    const int64_t end = score_columns(x->b);
    vf scales[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        const int64_t at = column + v * FV_W, left = x->b->columns - at;
        scales[v] = at < 0 || left <= 0 ? v_set1(0.0f)
                    : left < FV_W       ? v_load_n(x->b->scales + at, left)
                                        : v_load(x->b->scales + at);
    }
    const bool whole = column >= 0 && column + FV_KEY_GROUP <= end, begins = column == 0 && !x->e->accumulate_max;
    for (int64_t i = row; i < last; i++) {
        const vf scale = v_set1(fv_i8_row_of(x->a, i)->scale);
#pragma GCC unroll 1
        for (int v = 0; v < VECTORS && !whole; v++, sums += FV_W) {
            const int64_t at = column + v * FV_W;
            if (at >= 0 && at < end)
                score_store(x->e, i, at, v_mul(v_load(sums), v_mul(scale, scales[v])), x->c, x->ldc);
        }
        if (!whole)
            continue;
        float none[FV_LANES], *const max = x->e->row_max ? x->e->row_max + i * FV_LANES : none;
        vf most[LANES];
#pragma GCC unroll 4
        for (int v = 0; v < LANES; v++)
            most[v] = begins || max == none ? v_set1(-INFINITY) : v_load(max + v * FV_W);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++, sums += FV_W) {
            const vf score = v_mul(v_load(sums), v_mul(scale, scales[v]));
            v_store(x->c + i * x->ldc + column + v * FV_W, score);
            most[v % LANES] = v_max(score, most[v % LANES]);
        }
#pragma GCC unroll 4
        for (int v = 0; v < LANES; v++)
            v_store(max + v * FV_W, most[v]);
    }
}

/* Words of some vectors of a panel with rows q, and `line` of what is next for each line of them: sums as floats. */
SCORE_INLINE void i8_words(const float *words, int64_t count, const fv_i8_row *const q[], const char *next,
                           int64_t line, float *to, const int rows, const int vectors) {
    v_sums sums[VECTORS][ROWS];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sums[v][i] = v_no_sums();
    for (int64_t w = 0; w < count; w++, words += FV_KEY_GROUP) {
        vi8 four[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            four[v] = v_i8(v_load(words + v * FV_W));
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                sums[v][i] = v_sums_add(sums[v][i], four[v], q[i]->word + w);
        for (int i = 0; i < vectors * FV_W * 4; i += LINE_BYTES, next += line)
            __builtin_prefetch(next, 0, 2);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            v_store(to + (i * VECTORS + v) * FV_W, v_sums_float(sums[v][i], q[i]->sum));
}

/* 1, 2 and ROWS rows, and how many vectors their sums leave registers for. */
#define I8_WORDS(rows) ((rows)*VECTORS > MOST_SUMS ? MOST_SUMS / (rows) : VECTORS)
#define I8_ROWS(name, rows)                                                                                            \
    static __attribute__((noinline)) void name(const float *words, int64_t count, const fv_i8_row *const q[],          \
                                               const char *next, int64_t line, float *to) {                            \
        i8_words(words, count, q, next, line, to, rows, I8_WORDS(rows));                                               \
    }
I8_ROWS(i8_1, 1)
I8_ROWS(i8_2, ROWS < 2 ? ROWS : 2)
I8_ROWS(i8_many, ROWS)

/* A panel, whose first place has the column given, with rows from row on; columns before 0 and past the last are not
 * there. */
static __attribute__((noinline)) void i8_panel(const i8_call *x, const float *words, int64_t column, int64_t row,
                                               const char **next, int rows) {
    const int64_t last = x->a->count - 1, count = (x->b->steps + 3) / 4, vectors = I8_WORDS(rows);
    const fv_i8_row *q[ROWS];
    const bool fetches = row == 0 && *next;
    _Alignas(LINE_BYTES) float floats[ROWS][VECTORS * FV_W]; /* no vector lies across lines */
    for (int i = 0; i < rows; i++)
        q[i] = fv_i8_row_of(x->a, row + i < last ? row + i : last);
    for (int64_t i = 0; i < FV_KEY_GROUP; i += LINE_BYTES / 4)
        __builtin_prefetch((const char *)((uintptr_t)(x->b->scales + column + FV_KEY_GROUP + i)), 0, 3);
    for (int64_t v = 0; v < VECTORS; v += vectors) {
        const float *at = words + v * FV_W;
        (rows == 1   ? i8_1
         : rows == 2 ? i8_2
                     : i8_many)(at, count, q, fetches ? *next : (const char *)at, fetches ? LINE_BYTES : 0,
                                floats[0] + v * FV_W);
        *next += fetches ? vectors * FV_W * 4 * count : 0;
    }
    i8_store(x, column, row, row + rows <= last ? row + rows : last + 1, floats[0]);
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const i8_call x = {a, b, c, ldc, epilogue ? epilogue : &score_no_epilogue};
    score_check(a, b, ldc, x.e);
    assert(b->steps <= FV_I8_CHANNELS && b->row == FV_KEY_GROUP && b->width == FV_KEY_GROUP);
    const float *panel = (const float *)b->data - b->first;
    const char *next = prefetch ? prefetch->next : NULL;
    const int rows = a->count < ROWS ? (int)(a->count > 2 ? ROWS : a->count) : ROWS;
    for (int64_t column = -b->first; column < b->columns; column += FV_KEY_GROUP, panel += b->panel) {
        for (int64_t row = 0; row < a->count; row += rows)
            i8_panel(&x, panel, column, row, &next, rows);
        next = next && next < (const char *)prefetch->next_end ? next : NULL;
    }
}
