/* Scores of few rows from int8 keys in panels of FV_KEY_GROUP (int8.h has the formulas): words of four channels are
 * multiplied and added to sums of 32 bits by the tier's units (simd/int8_*.h).
 * Bound: memory, or the products; of AVX-512 on Zen 4 loads, one a cycle. Figures: docs/lab/decode.md. */
#include "score_store.h"

enum {
    VECTORS = FV_KEY_GROUP / FV_W, /* of a panel */
    ROWS = FV_W == 16  ? 4
           : FV_W == 8 ? 2
                       : 1, /* at once, whose sums registers hold */
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
    for (int64_t i = row; i < last; i++) {
        const vf scale = v_set1(fv_i8_row_of(x->a, i)->scale);
        for (int v = 0; v < VECTORS; v++, sums += FV_W) {
            const int64_t at = column + v * FV_W;
            if (at >= 0 && at < end)
                score_store(x->e, i, at, v_mul(v_load(sums), v_mul(scale, scales[v])), x->c, x->ldc);
        }
    }
}

/* A panel, whose first place has the column given, with rows from row on; columns before 0 and past the last are not
 * there. */
SCORE_INLINE void i8_panel(const i8_call *x, const float *words, int64_t column, int64_t row, const char **next,
                           const int rows) {
    const int64_t last = x->a->count - 1, channels = x->b->steps;
    const fv_i8_row *q[ROWS];
    v_sums sums[VECTORS][ROWS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        q[i] = fv_i8_row_of(x->a, row + i < last ? row + i : last);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sums[v][i] = v_no_sums();
    for (int64_t w = 0; w < (channels + 3) / 4; w++, words += FV_KEY_GROUP) {
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) {
            const vi8 four = v_i8(v_load(words + v * FV_W));
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sums[v][i] = v_sums_add(sums[v][i], four, q[i]->word + w);
        }
        if (row > 0 || !*next)
            continue;
        for (int i = 0; i < FV_KEY_GROUP * 4; i += LINE_BYTES, *next += LINE_BYTES)
            __builtin_prefetch(*next, 0, 2);
    }
    _Alignas(LINE_BYTES) float floats[ROWS][VECTORS * FV_W]; /* no vector lies across lines */
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            v_store(floats[i] + v * FV_W, v_sums_float(sums[v][i], q[i]->sum));
    i8_store(x, column, row, row + rows <= last ? row + rows : last + 1, floats[0]);
}

SCORE_INLINE void i8_all(const i8_call *x, const fv_prefetch *prefetch, const int rows) {
    const float *panel = (const float *)x->b->data - x->b->first;
    const char *next = prefetch ? prefetch->next : NULL;
    for (int64_t column = -x->b->first; column < x->b->columns; column += FV_KEY_GROUP, panel += x->b->panel) {
        for (int64_t row = 0; row < x->a->count; row += rows)
            i8_panel(x, panel, column, row, &next, rows);
        next = next && next < (const char *)prefetch->next_end ? next : NULL;
    }
}

static __attribute__((noinline)) void i8_1(const i8_call *x, const fv_prefetch *next) { i8_all(x, next, 1); }
static __attribute__((noinline)) void i8_2(const i8_call *x, const fv_prefetch *next) {
    i8_all(x, next, ROWS < 2 ? ROWS : 2);
}
static __attribute__((noinline)) void i8_many(const i8_call *x, const fv_prefetch *next) { i8_all(x, next, ROWS); }

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const i8_call x = {a, b, c, ldc, epilogue ? epilogue : &score_no_epilogue};
    score_check(a, b, ldc, x.e);
    assert(b->steps <= FV_I8_CHANNELS && b->row == FV_KEY_GROUP && b->width == FV_KEY_GROUP);
    switch (a->count) {
    case 1: i8_1(&x, prefetch); break;
    case 2: i8_2(&x, prefetch); break;
    default: i8_many(&x, prefetch); break;
    }
}
