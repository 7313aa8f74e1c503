/* dot: scores of few rows from keys as they lie in memory (kernels.h has the contract). FV_ELEMENT: that of a key; FV_PAIR,
 * where it has 16 bits: parts words of two; FV_PAIRS: instead, words of keys in lanes are multiplied as pairs, where that is exact (dot_pairs.h); else it is
 * the kernel that does the call.
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

#ifdef FV_PAIRS
#include "dot_pairs.h"
#else
typedef int dot_seen;
#endif

/* The queries of a call: floats, or pairs, of so many rows, interleaved. */
typedef struct dot_queries {
    const float *q;
    dot_seen *seen;
} dot_queries;

/* Elements of a row that a word of keys is multiplied with. */
#define DOT_STEP(pairs) ((pairs) ? 1 : WORD)

/* The products of a word, of which so many channels are there, with the elements of rows from q on, interleaved. */
DOT_INLINE void dot_word(vf word, const float *q, int64_t channels, vf *acc, int64_t stride, const int rows,
                         dot_seen *seen, const int pairs) {
    (void)channels;
    (void)stride;
    (void)seen;
    (void)pairs;
#ifdef FV_PAIRS
    if (pairs) {
        word = v_pairs_see(word, seen);
        for (int i = 0; i < rows; i++)
            acc[i] = v_pairs_fma(v_set1(q[i]), word, acc[i]);
        return;
    }
#endif
#ifdef FV_PAIR
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

/* The products of a block, words of keys. */
DOT_INLINE void dot_products(const vf *words, const float *q, int64_t channels, vf *acc, const int rows, dot_seen *seen,
                             const int pairs) {
    for (int r = 0; r < FV_W && r * WORD < channels; r++, q += DOT_STEP(pairs) * rows)
        dot_word(words[r], q, channels - r * WORD, acc, rows, rows, seen, pairs);
}

/* A block of which some keys, or channels, are not there: zeros. */
static __attribute__((noinline)) void dot_load_edge(vf *words, const FV_ELEMENT *k, int64_t ldk, int64_t keys,
                                                    int64_t channels) {
    float copy[FV_W][FV_W] = {{0}};
    for (int64_t j = 0; j < keys && j < FV_W; j++)
        memcpy(copy[j], k + j * ldk, (size_t)channels * sizeof *k);
    v_load_transposed_words(words, copy, sizeof copy[0]);
}

/* The rest of the channels of FV_W keys, fewer than a block has. */
static __attribute__((noinline)) void dot_rest(const float *q, int rows, const FV_ELEMENT *k, int64_t ldk, int64_t keys,
                                               int64_t channels, vf *acc, dot_seen *seen, int pairs) {
    vf words[FV_W];
    dot_load_edge(words, k, ldk, keys, channels);
    float column[FV_W][FV_W];
    for (int r = 0; r < FV_W; r++)
        v_store(column[r], words[r]);
    for (int r = 0; r * WORD < channels; r++)
        words[r] = v_load(column[r]);
    dot_products(words, q, channels, acc, rows, seen, pairs);
}

/* Prefetches the block at the same channels of the keys of the next pass, and of the one after it into the second-level cache,
 * which waits for more lines at once than the first. */
DOT_INLINE void dot_ahead(const FV_ELEMENT *k, int64_t ldk, const int vectors) {
    const char *at = (const char *)k;
    const int64_t bytes = ldk * (int64_t)sizeof *k;
#pragma GCC unroll 1
    for (int r = 0; r < FV_W && FV_W * 4 >= LINE_BYTES / 2; r++) {
        __builtin_prefetch((const char *)((uintptr_t)at + (uintptr_t)(r * bytes)), 0, 3);
        __builtin_prefetch((const char *)((uintptr_t)at + (uintptr_t)((vectors * FV_W + r) * bytes)), 0, 2);
    }
}

/* Columns that are written. */
DOT_INLINE int64_t dot_columns(const fv_dot_args *x) { return (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* Scores of a row and FV_W keys. */
DOT_INLINE void dot_store(const fv_dot_args *x, int64_t row, int64_t key, vf scores, dot_seen *seen, const int pairs) {
    (void)seen;
    (void)pairs;
#ifdef FV_PAIRS
    if (pairs)
        v_pairs_see_scores(scores, seen);
#endif
    v_store(x->s + row * x->lds + key, scores);
    if (!x->row_max)
        return;
    float *max = x->row_max + row * FV_LANES + key % FV_LANES;
    v_store(max, key < FV_LANES && !x->accumulate_max ? v_max(scores, v_set1(-INFINITY)) : v_max(scores, v_load(max)));
}

/* Keys key to key + vectors * FV_W, of which some may not be there. */
DOT_INLINE void dot_keys(const fv_dot_args *x, const dot_queries *q, int64_t key, const char **next, const int rows,
                         const int vectors, const int pairs) {
    const int64_t ldk = x->ldk, whole = x->channels / BLOCK * BLOCK, left = x->keys - key;
    const FV_ELEMENT *k = (const FV_ELEMENT *)x->k + key * ldk;
    vf acc[CHAINS][8];
    for (int v = 0; v < vectors; v++)
        for (int i = 0; i < rows; i++)
            acc[v][i] = v_set1(0.0f);
    for (int64_t c = 0; c < whole; c += BLOCK)
        for (int v = 0; v < vectors; v++) {
            vf words[FV_W];
            if (left >= (v + 1) * FV_W)
                v_load_transposed_words(words, k + v * FV_W * ldk + c, ldk * (int64_t)sizeof *k);
            else
                dot_load_edge(words, k + v * FV_W * ldk + c, ldk, left - v * FV_W, BLOCK);
            dot_ahead(k + (v + vectors) * FV_W * ldk + c, ldk, vectors);
            for (int i = 0; i < BLOCK_LINES && *next; i++)
                __builtin_prefetch(*next + i * LINE_BYTES, 0, 2);
            if (*next && (*next += BLOCK_BYTES) >= (const char *)x->next_end)
                *next = NULL;
            dot_products(words, q->q + c / WORD * DOT_STEP(pairs) * rows, BLOCK, acc[v], rows, q->seen, pairs);
        }
    for (int v = 0; v < vectors && whole < x->channels; v++) {
        vf rest[8];
        for (int i = 0; i < rows; i++)
            rest[i] = acc[v][i];
        dot_rest(q->q + whole / WORD * DOT_STEP(pairs) * rows, rows, k + v * FV_W * ldk + whole, ldk, left - v * FV_W,
                 x->channels - whole, rest, q->seen, pairs);
        for (int i = 0; i < rows; i++)
            acc[v][i] = rest[i];
    }
    for (int i = 0; i < rows && i < x->rows; i++)
        for (int v = 0; v < vectors && key + v * FV_W < dot_columns(x); v++)
            dot_store(x, i, key + v * FV_W, acc[v][i], q->seen, pairs);
}

#include "dot_lanes.h"

DOT_INLINE void rows_all(const fv_dot_args *x, const dot_queries *q, const int rows, const int pairs) {
    const int vectors = rows >= CHAINS ? 1 : 2;
    const char *next = x->next;
    for (int64_t key = 0; key < dot_columns(x); key += vectors * FV_W)
        dot_keys(x, q, key, &next, rows, vectors, pairs);
}

/* For so many rows, by their stride. */
typedef void dot_fn(const fv_dot_args *x, const dot_queries *q);
#define DOT_FUNCTIONS(layout, pairs)                                                                                   \
    static __attribute__((noinline)) void layout##_1_##pairs(const fv_dot_args *x, const dot_queries *q) {             \
        layout##_all(x, q, 1, pairs);                                                                                  \
    }                                                                                                                  \
    static __attribute__((noinline)) void layout##_2_##pairs(const fv_dot_args *x, const dot_queries *q) {             \
        layout##_all(x, q, 2, pairs);                                                                                  \
    }                                                                                                                  \
    static __attribute__((noinline)) void layout##_4_##pairs(const fv_dot_args *x, const dot_queries *q) {             \
        layout##_all(x, q, 4, pairs);                                                                                  \
    }                                                                                                                  \
    static __attribute__((noinline)) void layout##_8_##pairs(const fv_dot_args *x, const dot_queries *q) {             \
        layout##_all(x, q, 8, pairs);                                                                                  \
    }                                                                                                                  \
    static dot_fn *const layout##_##pairs[] = {layout##_1_##pairs, layout##_2_##pairs, layout##_4_##pairs,             \
                                               layout##_8_##pairs};

#ifdef FV_PAIRS
DOT_FUNCTIONS(lanes, 1)
#else
DOT_FUNCTIONS(rows, 0)
DOT_FUNCTIONS(lanes, 0)
#endif

static int dot_place(const fv_dot_args *x) { return x->rows <= 2 ? (int)x->rows - 1 : x->rows <= 4 ? 2 : 3; }

#ifdef FV_PAIRS
/* As pairs; false if that was not exact, and then maxima are as they were. */
static __attribute__((noinline)) bool dot_as_pairs(const fv_dot_args *x) {
    float words[PAIR_WORDS], kept[FV_DOT_ROWS * FV_LANES];
    dot_seen seen;
    fv_magnitudes queries;
    if (!dot_pair_queries(x, words, &queries))
        return false;
    if (x->row_max)
        memcpy(kept, x->row_max, (size_t)(x->rows * FV_LANES) * sizeof(float));
    seen = dot_sees_none();
    lanes_1[dot_place(x)](x, &(dot_queries){words, &seen});
    if (dot_was_exact(&seen, queries))
        return true;
    if (x->row_max)
        memcpy(x->row_max, kept, (size_t)(x->rows * FV_LANES) * sizeof(float));
    return false;
}
#endif

void FV_NAME(const fv_dot_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->channels >= 1 && x->ldk >= 0);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    assert(!x->lanes || x->first == 0 || x->first == FV_LANES);
#ifdef FV_PAIRS
    if (!x->lanes || !dot_as_pairs(x))
        FV_PAIRS(x);
#else
    dot_seen none = 0;
    (x->lanes ? lanes_0 : rows_0)[dot_place(x)](x, &(dot_queries){x->q, &none});
#endif
}
