/* Scores of few rows from keys in place, one behind the other (kernels.h: formats of elements by column).
 * FV_ELEMENT: that of a key; FV_PAIR, where it has 16 bits: parts words of two.
 *
 * A cache line of each of KEYS keys is transposed in registers, widened and stored, and multiplied from the first-level
 * cache. Bound: memory, then loads of 16 bytes and two shuffles a vector. Figures: docs/lab/decode.md. */
#include "score_store.h"

enum {
#ifdef FV_PAIR
    WORD = 2, /* steps of a word */
#else
    WORD = 1,
#endif
    LINE_BYTES = 64,               /* of the cache, of every key a block */
    BLOCK = LINE_BYTES / 4 * WORD, /* steps of it, */
    PART = FV_W * WORD,            /* and of what registers transpose */
    KEYS = FV_W == 16 ? 32 : 16,   /* at once */
    VECTORS = KEYS / FV_W,         /* of them */
    ROWS = 4                       /* whose chains registers hold */
};

/* Chains of rows go on through the steps of a block. */
SCORE_INLINE void rows_chains(const float *block, const float *a, int64_t lda, int64_t steps, float *chains,
                              const int rows) {
    vf acc[ROWS][VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++)
            acc[i][v] = v_load(chains + i * KEYS + v * FV_W);
    for (int64_t t = 0; t < steps; t++, block += KEYS) {
        vf y[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            y[v] = v_load(block + v * FV_W);
        for (int i = 0; i < rows; i++) {
            const vf x = v_set1(a[i * lda + t]);
            for (int v = 0; v < VECTORS; v++)
                acc[i][v] = v_fma(x, y[v], acc[i][v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++)
            v_store(chains + i * KEYS + v * FV_W, acc[i][v]);
}

static __attribute__((noinline)) void rows_multiply(const float *block, const fv_rows *a, int64_t first, int64_t steps,
                                                    float *chains) {
    const float *row = (const float *)a->data + first;
    int64_t left = a->count;
    for (; left >= ROWS; left -= ROWS, row += ROWS * a->stride, chains += ROWS * KEYS)
        rows_chains(block, row, a->stride, steps, chains, ROWS);
    switch (left) {
    case 3: rows_chains(block, row, a->stride, steps, chains, 3); break;
    case 2: rows_chains(block, row, a->stride, steps, chains, 2); break;
    case 1: rows_chains(block, row, a->stride, steps, chains, 1); break;
    default: break;
    }
}

/* A part of which some keys, or steps, are not there: zeros. */
static __attribute__((noinline)) void rows_load_edge(vf *words, const FV_ELEMENT *k, int64_t ldk, int64_t keys,
                                                     int64_t steps) {
    float copy[FV_W][FV_W] = {{0}};
    for (int64_t j = 0; j < keys && j < FV_W && steps > 0; j++)
        memcpy(copy[j], k + j * ldk, (size_t)(steps < PART ? steps : PART) * sizeof *k);
    v_load_transposed_words(words, copy, sizeof copy[0]);
}

/* A word becomes floats, one for each of its steps. */
SCORE_INLINE void rows_widen(vf word, vf floats[WORD]) {
#ifdef FV_PAIR
    FV_PAIR(word, &floats[0], &floats[1]);
#else
    floats[0] = word;
#endif
}

/* FV_W keys of a part become columns of the block. */
SCORE_INLINE void rows_transpose(const FV_ELEMENT *k, int64_t ldk, int64_t keys, int64_t steps, float *to) {
    vf words[FV_W];
    if (keys >= FV_W && steps >= PART)
        v_load_transposed_words(words, k, ldk * (int64_t)sizeof *k);
    else
        rows_load_edge(words, k, ldk, keys, steps);
    for (int r = 0; r < FV_W; r++) {
        vf floats[WORD];
        rows_widen(words[r], floats);
        for (int e = 0; e < WORD; e++)
            v_store(to + (r * WORD + e) * KEYS, floats[e]);
    }
}

/* The chain of one row goes on through a part, in registers. */
SCORE_INLINE vf rows_chain(const vf *words, const float *a, vf acc) {
    for (int r = 0; r < FV_W; r++) {
        vf floats[WORD];
        rows_widen(words[r], floats);
        for (int e = 0; e < WORD; e++)
            acc = v_fma(v_set1(a[r * WORD + e]), floats[e], acc);
    }
    return acc;
}

/* The same where some of them are not there. */
static __attribute__((noinline)) vf rows_edge(const FV_ELEMENT *k, int64_t ldk, int64_t keys, const float *a,
                                              int64_t steps, vf acc) {
    vf words[FV_W];
    rows_load_edge(words, k, ldk, keys, steps);
    const int64_t there = steps < PART ? steps : PART;
#pragma GCC unroll 1
    for (int64_t t = 0; t < there; t += WORD) {
        vf floats[WORD];
        rows_widen(words[t / WORD], floats);
        for (int e = 0; e < WORD && t + e < there; e++)
            acc = v_fma(v_set1(a[t + e]), floats[e], acc);
    }
    return acc;
}

/* Prefetches the same steps of the keys of the next pass, and of the one after it into the second-level cache, which
 * waits for more lines at once than the first. */
SCORE_INLINE void rows_ahead(const FV_ELEMENT *k, int64_t ldk) {
    const int64_t bytes = ldk * (int64_t)sizeof *k;
#pragma GCC unroll 1
    for (int r = KEYS; r < KEYS + FV_W; r++) {
        __builtin_prefetch((const char *)((uintptr_t)k + (uintptr_t)(r * bytes)), 0, 3);
        __builtin_prefetch((const char *)((uintptr_t)k + (uintptr_t)((KEYS + r) * bytes)), 0, 2);
    }
}

/* Prefetches what is asked for, at the pace of keys. */
SCORE_INLINE const char *rows_next(const char *next, const fv_prefetch *prefetch) {
    for (int i = 0; i < FV_W && next; i++, next += LINE_BYTES)
        __builtin_prefetch(next, 0, 2);
    return next && next < (const char *)prefetch->next_end ? next : NULL;
}

/* One row: keys stay in registers, and so do chains, which take turns. */
static __attribute__((noinline)) void rows_one(const fv_rows *a, const fv_operand *b, float *c, const fv_epilogue *e,
                                               const fv_prefetch *prefetch) {
    const int64_t ldk = b->row, whole = b->steps / PART * PART;
    const float *row = a->data;
    const char *next = prefetch ? prefetch->next : NULL;
    for (int64_t key = 0; key < b->columns; key += KEYS) {
        const FV_ELEMENT *k = (const FV_ELEMENT *)b->data + key * ldk;
        vf acc[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            acc[v] = v_set1(0.0f);
        for (int64_t t = 0; t < b->steps; t += PART)
            for (int v = 0; v < VECTORS; v++) {
                const FV_ELEMENT *part = k + v * FV_W * ldk + t;
                const int64_t keys = b->columns - key - v * FV_W;
                if (keys >= FV_W && t < whole) {
                    vf words[FV_W];
                    v_load_transposed_words(words, part, ldk * (int64_t)sizeof *k);
                    acc[v] = rows_chain(words, row + t, acc[v]);
                } else
                    acc[v] = rows_edge(part, ldk, keys, row + t, b->steps - t, acc[v]);
                if (t % BLOCK == 0) {
                    rows_ahead(part, ldk);
                    next = rows_next(next, prefetch);
                }
            }
        for (int v = 0; v < VECTORS && key + v * FV_W < score_columns(b); v++)
            score_store(e, 0, key + v * FV_W, acc[v], c, 0);
    }
}

/* More rows than one: blocks are stored. */
static void rows_many(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *e,
                      const fv_prefetch *prefetch) {
    const int64_t ldk = b->row;
    const char *next = prefetch ? prefetch->next : NULL;
    for (int64_t key = 0; key < b->columns; key += KEYS) {
        _Alignas(LINE_BYTES) float block[BLOCK * KEYS], chains[FV_FEW_ROWS * KEYS] = {0};
        for (int64_t t = 0; t < b->steps; t += BLOCK) {
            const int64_t steps = b->steps - t < BLOCK ? b->steps - t : BLOCK;
            for (int v = 0; v < VECTORS; v++) {
                const FV_ELEMENT *k = (const FV_ELEMENT *)b->data + (key + v * FV_W) * ldk + t;
                for (int p = 0; p < BLOCK; p += PART)
                    rows_transpose(k + p, ldk, b->columns - key - v * FV_W, steps - p, block + p * KEYS + v * FV_W);
                rows_ahead(k, ldk);
                next = rows_next(next, prefetch);
            }
            rows_multiply(block, a, t, steps, chains);
        }
        for (int64_t i = 0; i < a->count; i++)
            for (int64_t v = 0; v < VECTORS && key + v * FV_W < score_columns(b); v++)
                score_store(e, i, key + v * FV_W, v_load(chains + i * KEYS + v * FV_W), c, ldc);
    }
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const fv_epilogue *e = epilogue ? epilogue : &score_no_epilogue;
    score_check(a, b, ldc, e);
    if (a->count == 1)
        rows_one(a, b, c, e, prefetch);
    else
        rows_many(a, b, c, ldc, e, prefetch);
}
