/* dot of keys in rows (dot.h): words of FV_W keys are transposed in registers, never stored. */

/* The products of a block, words of keys. */
DOT_INLINE void dot_products(const vf *words, const float *q, int64_t channels, vf *acc, const int rows,
                             dot_seen *seen) {
    for (int r = 0; r < FV_W && r * WORD < channels; r++, q += STEP * rows)
        dot_word(words[r], q, channels - r * WORD, acc, rows, rows, seen);
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
                                               int64_t channels, vf *acc, dot_seen *seen) {
    vf words[FV_W];
    dot_load_edge(words, k, ldk, keys, channels);
    float column[FV_W][FV_W];
    for (int r = 0; r < FV_W; r++)
        v_store(column[r], words[r]);
    for (int r = 0; r * WORD < channels; r++)
        words[r] = v_load(column[r]);
    dot_products(words, q, channels, acc, rows, seen);
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

/* Keys key to key + vectors * FV_W, of which some may not be there. */
DOT_INLINE void dot_keys(const fv_dot_args *x, const dot_queries *q, int64_t key, const char **next, const int rows,
                         const int vectors) {
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
            dot_products(words, q->q + c / WORD * STEP * rows, BLOCK, acc[v], rows, q->seen);
        }
    for (int v = 0; v < vectors && whole < x->channels; v++) {
        vf rest[8];
        for (int i = 0; i < rows; i++)
            rest[i] = acc[v][i];
        dot_rest(q->q + whole / WORD * STEP * rows, rows, k + v * FV_W * ldk + whole, ldk, left - v * FV_W,
                 x->channels - whole, rest, q->seen);
        for (int i = 0; i < rows; i++)
            acc[v][i] = rest[i];
    }
    for (int i = 0; i < rows && i < x->rows; i++)
        for (int v = 0; v < vectors && key + v * FV_W < dot_columns(x); v++)
            dot_store(x, i, key + v * FV_W, acc[v][i], q->seen);
}

DOT_INLINE void rows_all(const fv_dot_args *x, const dot_queries *q, const int rows) {
    const int vectors = rows >= CHAINS ? 1 : 2;
    const char *next = x->next;
    for (int64_t key = 0; key < dot_columns(x); key += vectors * FV_W)
        dot_keys(x, q, key, &next, rows, vectors);
}
