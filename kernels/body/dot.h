/* dot: scores of few rows from keys as they lie in memory (kernels.h has the contract). FV_ELEMENT: that of a key; FV_PAIR,
 * where it has 16 bits: parts words of two. FV_IN_LANES: keys may lie in lanes. FV_AS_PAIRS: these are multiplied as pairs where that is
 * exact (dot_pairs.h); all else is done by the kernel that FV_GUARDED names.
 *
 * Words of FV_W keys are multiplied in registers: those that lie in rows are transposed there, never stored; those in lanes are read
 * as they lie. Bound: memory, or the products; beside them, of rows, loads of 16 bytes and two shuffles a vector. Keys in rows are
 * taken by so many vectors that more chains go on than a product has cycles. Figures: docs/measurements.md, "dot.h". */
#include "ahead.h"

#include <stdbool.h>

#define DOT_INLINE static inline __attribute__((always_inline))

enum {
#ifdef FV_PAIR
    WORD = 2, /* channels of a word */
#else
    WORD = 1,
#endif
    BLOCK = FV_W * WORD,           /* channels of a block of FV_W keys */
    BLOCK_BYTES = FV_W * FV_W * 4, /* of it */
    LINE_BYTES = 64,               /* of the cache */
    CHAINS = 4,                    /* vectors of them that registers hold beside a block */
    BLOCK_LINES = (BLOCK_BYTES + LINE_BYTES - 1) / LINE_BYTES
};

#ifdef FV_AS_PAIRS
#include "dot_pairs.h"
enum { STEP = 1 }; /* elements of a row of queries that a word of keys is multiplied with */
#else
enum { STEP = WORD };
typedef int dot_seen;
DOT_INLINE vf dot_see(vf words, dot_seen *seen) {
    (void)seen;
    return words;
}
DOT_INLINE void dot_see_scores(vf scores, dot_seen *seen) {
    (void)scores;
    (void)seen;
}
#endif

/* The queries of a call: floats, or pairs, of so many rows, interleaved. */
typedef struct dot_queries {
    const float *q;
    dot_seen *seen;
} dot_queries;

/* The products of a word, of which so many channels are there, with the elements of rows from q on, interleaved. */
DOT_INLINE void dot_word(vf word, const float *q, int64_t channels, vf *acc, int64_t stride, const int rows,
                         dot_seen *seen) {
    (void)channels;
    (void)stride;
    word = dot_see(word, seen);
#ifdef FV_AS_PAIRS
    for (int i = 0; i < rows; i++)
        acc[i] = v_accumulate_pairs(word, v_set1(q[i]), acc[i]);
#elif defined FV_PAIR
    vf first, second;
    FV_PAIR(word, &first, &second);
    for (int i = 0; i < rows; i++)
        acc[i] = v_fma(v_set1(q[i]), first, acc[i]);
    for (int i = 0; i < rows && channels > 1; i++)
        acc[i] = v_fma(v_set1(q[stride + i]), second, acc[i]);
#else
    for (int i = 0; i < rows; i++)
        acc[i] = v_fma(v_set1(q[i]), word, acc[i]);
#endif
}

/* Columns that are written. */
DOT_INLINE int64_t dot_columns(const fv_dot_args *x) { return (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* Scores of a row and FV_W keys. */
DOT_INLINE void dot_store(const fv_dot_args *x, int64_t row, int64_t key, vf scores, dot_seen *seen) {
    dot_see_scores(scores, seen);
    v_store(x->s + row * x->lds + key, scores);
    if (!x->row_max)
        return;
    float *max = x->row_max + row * FV_LANES + key % FV_LANES;
    v_store(max, key < FV_LANES && !x->accumulate_max ? v_max(scores, v_set1(-INFINITY)) : v_max(scores, v_load(max)));
}

#ifdef FV_IN_LANES
#include "dot_lanes.h"
#endif
#ifndef FV_GUARDED
#include "dot_rows.h"
#endif

/* For so many rows, by their stride. */
typedef void dot_fn(const fv_dot_args *x, const dot_queries *q);
#define DOT_FUNCTION(layout, rows)                                                                                     \
    static __attribute__((noinline)) void layout##_##rows(const fv_dot_args *x, const dot_queries *q) {                \
        layout##_all(x, q, rows);                                                                                      \
    }
#define DOT_FUNCTIONS(layout)                                                                                          \
    DOT_FUNCTION(layout, 1)                                                                                            \
    DOT_FUNCTION(layout, 2)                                                                                            \
    DOT_FUNCTION(layout, 4)                                                                                            \
    DOT_FUNCTION(layout, 8)                                                                                            \
    static dot_fn *const layout##_dots[] = {layout##_1, layout##_2, layout##_4, layout##_8};

static int dot_place(const fv_dot_args *x) { return x->rows <= 2 ? (int)x->rows - 1 : x->rows <= 4 ? 2 : 3; }

#ifdef FV_IN_LANES
DOT_FUNCTIONS(lanes)
#endif
#ifdef FV_GUARDED
/* In the faster way; false if that was not exact, and then maxima are as they were. */
static __attribute__((noinline)) bool dot_fast(const fv_dot_args *x) {
    float words[QUERY_FLOATS], kept[FV_DOT_ROWS * FV_LANES];
    dot_seen seen = dot_sees_none();
    dot_met queries;
    if (!dot_queries_ready(x, words, &queries))
        return false;
    if (x->row_max)
        memcpy(kept, x->row_max, (size_t)(x->rows * FV_LANES) * sizeof(float));
    lanes_dots[dot_place(x)](x, &(dot_queries){words, &seen});
    if (dot_was_exact(&seen, queries))
        return true;
    if (x->row_max)
        memcpy(x->row_max, kept, (size_t)(x->rows * FV_LANES) * sizeof(float));
    return false;
}
#else
DOT_FUNCTIONS(rows)
#endif

void FV_NAME(const fv_dot_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->channels >= 1 && x->ldk >= 0);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    assert(!x->lanes || x->first == 0 || x->first == FV_LANES);
#ifdef FV_GUARDED
    if (!x->lanes || !dot_fast(x))
        FV_GUARDED(x);
#else
    dot_seen none = 0;
    const dot_queries q = {x->q, &none};
#ifdef FV_IN_LANES
    if (x->lanes) {
        lanes_dots[dot_place(x)](x, &q);
        return;
    }
#endif
    assert(!x->lanes);
    rows_dots[dot_place(x)](x, &q);
#endif
}
