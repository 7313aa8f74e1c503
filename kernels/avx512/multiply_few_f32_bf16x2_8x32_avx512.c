/* Scores of few rows from keys of bfloat16 in panels of FV_KEY_GROUP, by pairs: VDPBF16PS multiplies two channels at
 * once, bit for bit the chain of kernels.h where fv_pairs_exact() says so of queries and keys, and the caller rounds to
 * nearest. Both are found out on the way: where it does not hold, the call is done again by floats. Figures:
 * docs/lab/decode.md. */
#include "simd/simd_avx512.h"

#include "simd/bf16x2_avx512.h"
#include "simd/exponents_avx512.h"
#include "simd/half_avx512.h"

#include "body/score_store.h"

#include <stdbool.h>

enum {
    VECTORS = FV_KEY_GROUP / FV_W,
    QUERY_WORDS = 2048, /* at most: they are on the stack; whole vectors */
    LINE_BYTES = 64
};

typedef struct pair_call {
    const fv_rows *a;
    const fv_operand *b;
    float *c;
    int64_t ldc;
    const fv_epilogue *e;
    const fv_prefetch *prefetch;
} pair_call;

/* Queries as words of two. */
typedef struct pair_queries {
    float word[QUERY_WORDS];
    int64_t stride;
    fv_exponent_range range;
} pair_queries;

/* Extremes of each lane. least: the smallest magnitude of a key, minus 1, so that zeros wrap around to the largest
 * value. scores: the largest bits of a score, since an infinite or NaN key gives such a score. */
typedef struct pair_seen {
    __m512i least, scores;
} pair_seen;

/* Rows of floats become words; false if they are too many, or some are no bfloat16. */
static __attribute__((noinline)) bool make_queries(const pair_call *x, pair_queries *q) {
    const int64_t steps = x->b->steps, words = (steps + 1) / 2;
    q->stride = (words + FV_W - 1) / FV_W * FV_W;
    if (q->stride * x->a->count > QUERY_WORDS || (_mm_getcsr() & 0x6000) != 0)
        return false;
    const __m512i firsts = _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)),
                  seconds = _mm512_add_epi32(firsts, _mm512_set1_epi32(1)), high = _mm512_set1_epi32((int)0xffff0000);
    __m512i rest = _mm512_setzero_si512();
    exponents seen = exponents_none();
    for (int64_t i = 0; i < x->a->count; i++)
        for (int64_t w = 0; w < words; w += FV_W) {
            const float *row = (const float *)x->a->data + i * x->a->stride + 2 * w;
            const int64_t left = steps - 2 * w;
            const __m512i low = _mm512_castps_si512(v_load_n(row, left < FV_W ? left : FV_W)),
                          upper = left > FV_W
                                      ? _mm512_castps_si512(v_load_n(row + FV_W, left < 2 * FV_W ? left - FV_W : FV_W))
                                      : _mm512_setzero_si512();
            const __m512i first = _mm512_permutex2var_epi32(low, firsts, upper),
                          second = _mm512_permutex2var_epi32(low, seconds, upper);
            const __m512i pairs = _mm512_or_si512(_mm512_and_si512(first, high), _mm512_srli_epi32(second, 16));
            rest = _mm512_or_si512(rest, _mm512_andnot_si512(high, _mm512_or_si512(first, second)));
            exponents_add(&seen, pairs);
            _mm512_storeu_si512(q->word + i * q->stride + w, pairs);
        }
    q->range = fv_exponents_none();
    exponents_take(&seen, &q->range);
    return _mm512_test_epi32_mask(rest, rest) == 0 && q->range.least >= 0x80 && q->range.most < 0x7f80;
}

/* A panel, whose first place has the column given, with rows from row on; columns before 0 and past the last are not
 * there. */
SCORE_INLINE void pair_panel(const pair_call *x, const pair_queries *q, const float *words, int64_t column, int64_t row,
                             pair_seen *all, const char **next, const int rows) {
    const float *a = q->word + row * q->stride;
    vf acc[VECTORS][FV_FEW_ROWS];
    pair_seen seen = *all;
    for (int v = 0; v < VECTORS; v++)
        for (int i = 0; i < rows; i++)
            acc[v][i] = v_set1(0.0f);
    for (int64_t t = 0; t < x->b->steps; t += 2, words += FV_KEY_GROUP, a++) {
        for (int v = 0; v < VECTORS; v++) {
            const vf word = v_load(words + v * FV_W);
            const __m512i halves = _mm512_castps_si512(word), twice = _mm512_add_epi16(halves, halves);
            seen.least = _mm512_min_epu16(seen.least, _mm512_sub_epi16(twice, _mm512_set1_epi16(1)));
            for (int i = 0; i < rows; i++)
                acc[v][i] = v_accumulate_pairs(word, v_set1(a[i * q->stride]), acc[v][i]);
        }
        for (int i = 0; i < FV_KEY_GROUP * 4 && row == 0 && *next; i += LINE_BYTES, *next += LINE_BYTES)
            __builtin_prefetch(*next, 0, 2);
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++) {
            const int64_t at = column + v * FV_W;
            if (at < 0 || at >= score_columns(x->b))
                continue;
            const __m512i bits = _mm512_castps_si512(acc[v][i]);
            seen.scores = _mm512_max_epu32(seen.scores, _mm512_add_epi32(bits, bits));
            score_store(x->e, row + i, at, acc[v][i], x->c, x->ldc);
        }
    *all = seen;
}

#define PAIR_PANEL(rows)                                                                                               \
    static __attribute__((noinline)) void pair_panel_##rows(const pair_call *x, const pair_queries *q,                 \
                                                            const float *words, int64_t column, int64_t row,           \
                                                            pair_seen *seen, const char **next) {                      \
        pair_panel(x, q, words, column, row, seen, next, rows);                                                        \
    }
PAIR_PANEL(1)
PAIR_PANEL(2)
PAIR_PANEL(4)
PAIR_PANEL(8)

static void pair_panels(const pair_call *x, const pair_queries *q, pair_seen *seen) {
    const float *panel = (const float *)x->b->data - x->b->first;
    const char *next = x->prefetch ? x->prefetch->next : NULL;
    for (int64_t column = -x->b->first; column < x->b->columns; column += FV_KEY_GROUP, panel += x->b->panel) {
        const int64_t rows = x->a->count;
        int64_t row = 0;
        if (rows == FV_FEW_ROWS)
            pair_panel_8(x, q, panel, column, 0, seen, &next), row = FV_FEW_ROWS;
        for (; rows - row >= 4; row += 4)
            pair_panel_4(x, q, panel, column, row, seen, &next);
        for (; rows - row >= 2; row += 2)
            pair_panel_2(x, q, panel, column, row, seen, &next);
        if (row < rows)
            pair_panel_1(x, q, panel, column, row, seen, &next);
        next = next && next < (const char *)x->prefetch->next_end ? next : NULL;
    }
}

/* By pairs; false if that was not exact, and then maxima are as they were. */
static bool multiply_pairs(const pair_call *x) {
    pair_queries q;
    pair_seen seen = {_mm512_set1_epi16(-1), _mm512_setzero_si512()};
    float kept[FV_FEW_ROWS * FV_LANES];
    const size_t bytes = (size_t)(x->a->count * FV_LANES) * sizeof(float);
    if (!make_queries(x, &q))
        return false;
    if (x->e->row_max)
        memcpy(kept, x->e->row_max, bytes);
    pair_panels(x, &q, &seen);
    const fv_exponent_range keys = {(exponents_smallest(seen.least) + 1) / 2, 0};
    if (_mm512_reduce_max_epu32(seen.scores) < 0xff000000 && fv_pairs_exact(q.range, keys))
        return true;
    if (x->e->row_max)
        memcpy(x->e->row_max, kept, bytes);
    return false;
}

/* By floats, a panel at a time. */
static void multiply_floats(const pair_call *x) {
    for (int64_t column = 0, columns; column < score_columns(x->b); column += columns) {
        columns = FV_KEY_GROUP - (x->b->first + column) % FV_KEY_GROUP;
        columns = columns < score_columns(x->b) - column ? columns : score_columns(x->b) - column;
        const fv_operand panel = fv_operand_part(x->b, column, columns, 0, x->b->steps);
        fv_multiply_f32_bf16x2_6x64_avx512(x->a, &panel, x->c + column, x->ldc, NULL, NULL);
        for (int64_t i = 0; i < x->a->count && x->e->row_max; i++)
            for (int64_t j = column; j < column + columns; j += FV_W)
                score_store(x->e, i, j, v_load(x->c + i * x->ldc + j), x->c, x->ldc);
    }
}

void fv_multiply_few_f32_bf16x2_8x32_avx512(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                            const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const pair_call x = {a, b, c, ldc, epilogue ? epilogue : &score_no_epilogue, prefetch};
    score_check(a, b, ldc, x.e);
    assert(b->row == FV_KEY_GROUP && b->width == FV_KEY_GROUP);
    if (!multiply_pairs(&x))
        multiply_floats(&x);
}
