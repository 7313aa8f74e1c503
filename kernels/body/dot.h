/* dot: scores of few rows from keys as they lie in memory (kernels.h has the contract). FV_ELEMENT: that of a key; FV_PAIR,
 * where it has 16 bits: parts words of two.
 *
 * Words of FV_W keys are transposed in registers and multiplied there, never stored. Bound: memory, or the products; beside
 * them, loads of 16 bytes and two shuffles a vector. Keys are taken by so many vectors that more chains go on than a product
 * has cycles. Figures: docs/measurements.md, "dot.h". */
#include "ahead.h"

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

/* The products of a block, words of keys, with the elements of rows from q on. */
DOT_INLINE void dot_products(const vf *words, const float *q, int64_t channels, vf *acc, const int rows) {
    for (int r = 0; r < FV_W && r * WORD < channels; r++, q += WORD * rows) {
#ifdef FV_PAIR
        vf first, second;
        FV_PAIR(words[r], &first, &second);
        for (int i = 0; i < rows; i++)
            acc[i] = v_fma(v_set1(q[i]), first, acc[i]);
        for (int i = 0; i < rows && r * WORD + 1 < channels; i++)
            acc[i] = v_fma(v_set1(q[rows + i]), second, acc[i]);
#else
        for (int i = 0; i < rows; i++)
            acc[i] = v_fma(v_set1(q[i]), words[r], acc[i]);
#endif
    }
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
                                               int64_t channels, vf *acc) {
    vf words[FV_W];
    dot_load_edge(words, k, ldk, keys, channels);
    float column[FV_W][FV_W];
    for (int r = 0; r < FV_W; r++)
        v_store(column[r], words[r]);
    for (int r = 0; r * WORD < channels; r++)
        words[r] = v_load(column[r]);
    dot_products(words, q, channels, acc, rows);
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

/* Keys key to key + vectors * FV_W, of which some may not be there. */
DOT_INLINE void dot_keys(const fv_dot_args *x, int64_t key, const char **next, const int rows, const int vectors) {
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
            dot_products(words, x->q + c * rows, BLOCK, acc[v], rows);
        }
    for (int v = 0; v < vectors && whole < x->channels; v++) {
        vf rest[8];
        for (int i = 0; i < rows; i++)
            rest[i] = acc[v][i];
        dot_rest(x->q + whole * rows, rows, k + v * FV_W * ldk + whole, ldk, left - v * FV_W, x->channels - whole,
                 rest);
        for (int i = 0; i < rows; i++)
            acc[v][i] = rest[i];
    }
    for (int i = 0; i < rows && i < x->rows; i++)
        for (int v = 0; v < vectors; v++) {
            const int64_t at = key + v * FV_W;
            if (at >= dot_columns(x))
                break;
            v_store(x->s + i * x->lds + at, acc[v][i]);
            if (x->row_max) {
                float *max = x->row_max + i * FV_LANES + at % FV_LANES;
                v_store(max, at < FV_LANES && !x->accumulate_max ? v_max(acc[v][i], v_set1(-INFINITY))
                                                                 : v_max(acc[v][i], v_load(max)));
            }
        }
}

DOT_INLINE void dot_all(const fv_dot_args *x, const int rows) {
    const int vectors = rows >= CHAINS ? 1 : 2;
    const char *next = x->next;
    for (int64_t key = 0; key < dot_columns(x); key += vectors * FV_W)
        dot_keys(x, key, &next, rows, vectors);
}

static __attribute__((noinline)) void dot_1(const fv_dot_args *x) { dot_all(x, 1); }
static __attribute__((noinline)) void dot_2(const fv_dot_args *x) { dot_all(x, 2); }
static __attribute__((noinline)) void dot_4(const fv_dot_args *x) { dot_all(x, 4); }
static __attribute__((noinline)) void dot_8(const fv_dot_args *x) { dot_all(x, 8); }

void FV_NAME(const fv_dot_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->channels >= 1 && x->ldk >= 0);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    switch (fv_dot_stride(x->rows)) {
    case 1: dot_1(x); break;
    case 2: dot_2(x); break;
    case 4: dot_4(x); break;
    default: dot_8(x); break;
    }
}
