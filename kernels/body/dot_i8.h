/* dot of int8: scores of few rows from keys as they lie in memory (int8.h has the contract). FV_VECTORS(rows): so many vectors of
 * keys at once, a constant.
 *
 * As dot.h, with words of four channels, which are multiplied and added to sums of 32 bits by the tier's units (simd/int8_*.h). Blocks
 * of 16 channels, four words, are transposed in registers. Keys and channels that are not there are zeros of a copy. Bound: memory, or
 * the products. Figures: docs/measurements.md, "dot.h". */
#define DOT_INLINE static inline __attribute__((always_inline))

enum {
    WORDS = 4,         /* of a block */
    BLOCK = WORDS * 4, /* channels of it */
    LINE_BYTES = 64,   /* of the cache */
    LINE_BLOCKS = LINE_BYTES / BLOCK,
    MOST_VECTORS = 4,
    AHEAD = 2 /* groups of keys from here: those that are prefetched; as many again, into the second-level cache */
};

/* A block of which some keys, or channels, are not there. */
static __attribute__((noinline)) void dot_edge(int8_t *copy, const int8_t *k, int64_t ldk, int64_t keys,
                                               int64_t channels) {
    memset(copy, 0, FV_W * BLOCK);
    for (int64_t j = 0; j < keys && j < FV_W; j++)
        memcpy(copy + j * BLOCK, k + j * ldk, (size_t)(channels < BLOCK ? channels : BLOCK));
}

/* A line of a key lasts for LINE_BLOCKS blocks: each prefetches those of its share of the keys. */
DOT_INLINE void dot_ahead(const int8_t *k, int64_t ldk, int64_t block, const int vectors) {
    const uintptr_t at = (uintptr_t)k, group = (uintptr_t)(vectors * FV_W * ldk);
    for (int i = 0; i < FV_W / LINE_BLOCKS; i++) {
        const uintptr_t key = (uintptr_t)((block % LINE_BLOCKS * (FV_W / LINE_BLOCKS) + i) * ldk);
        __builtin_prefetch((const char *)(at + key + AHEAD * group), 0, 3);
        __builtin_prefetch((const char *)(at + key + 2 * AHEAD * group), 0, 2);
    }
}

/* Columns that are written. */
DOT_INLINE int64_t dot_columns(const fv_dot_i8_args *x) { return (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* The scores of a vector of keys from key at on. */
DOT_INLINE void dot_store(const fv_dot_i8_args *x, int64_t at, const v_sums *sums, const int rows) {
    const int64_t left = x->keys - at;
    const vf k_scales = left >= FV_W ? v_load(x->k_scales + at)
                        : left > 0   ? v_load_n(x->k_scales + at, left)
                                     : v_set1(0.0f);
    for (int i = 0; i < rows && i < x->rows; i++) {
        const vf s = v_mul(v_sums_float(sums[i], x->q_sums[i]), v_mul(v_set1(x->q_scales[i]), k_scales));
        v_store(x->s + i * x->lds + at, s);
        if (x->row_max) {
            float *max = x->row_max + i * FV_LANES + at % FV_LANES;
            v_store(max, v_max(s, at < FV_LANES && !x->accumulate_max ? v_set1(-INFINITY) : v_load(max)));
        }
    }
}

/* Keys key to key + vectors * FV_W, of which some may not be there. */
DOT_INLINE void dot_keys(const fv_dot_i8_args *x, int64_t key, const char **next, const int rows, const int vectors) {
    const fv_i8_word *q = x->q;
    v_sums sums[MOST_VECTORS][FV_DOT_ROWS];
    for (int v = 0; v < vectors; v++)
        for (int i = 0; i < rows; i++)
            sums[v][i] = v_no_sums();
    for (int64_t c = 0; c < x->channels; c += BLOCK, q += WORDS * rows)
        for (int v = 0; v < vectors; v++) {
            const int64_t at = key + v * FV_W;
            const int8_t *k = x->k + at * x->ldk + c;
            int8_t copy[FV_W * BLOCK];
            vf words[WORDS];
            if (at + FV_W <= x->keys && c + BLOCK <= x->channels)
                v_load_transposed_quads(words, k, x->ldk);
            else {
                dot_edge(copy, k, x->ldk, x->keys - at, x->channels - c);
                v_load_transposed_quads(words, copy, BLOCK);
            }
            dot_ahead(k, x->ldk, c / BLOCK, vectors);
            for (int i = 0; i < FV_W * BLOCK / LINE_BYTES && *next; i++)
                __builtin_prefetch(*next + i * LINE_BYTES, 0, 2);
            if (*next && (*next += FV_W * BLOCK) >= (const char *)x->next_end)
                *next = NULL;
            for (int w = 0; w < WORDS; w++) {
                const vi8 four = v_i8(words[w]);
                for (int i = 0; i < rows; i++)
                    sums[v][i] = v_sums_add(sums[v][i], four, q + w * rows + i);
            }
        }
    for (int v = 0; v < vectors && key + v * FV_W < dot_columns(x); v++)
        dot_store(x, key + v * FV_W, sums[v], rows);
}

DOT_INLINE void dot_all(const fv_dot_i8_args *x, const int rows) {
    const char *next = x->next;
    for (int64_t key = 0; key < dot_columns(x); key += FV_VECTORS(rows) * FV_W)
        dot_keys(x, key, &next, rows, FV_VECTORS(rows));
}

static __attribute__((noinline)) void dot_1(const fv_dot_i8_args *x) { dot_all(x, 1); }
static __attribute__((noinline)) void dot_2(const fv_dot_i8_args *x) { dot_all(x, 2); }
static __attribute__((noinline)) void dot_4(const fv_dot_i8_args *x) { dot_all(x, 4); }
static __attribute__((noinline)) void dot_8(const fv_dot_i8_args *x) { dot_all(x, 8); }

void FV_NAME(const fv_dot_i8_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->ldk >= 0);
    assert(x->channels >= 1 && x->channels <= FV_I8_CHANNELS);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    switch (fv_dot_stride(x->rows)) {
    case 1: dot_1(x); break;
    case 2: dot_2(x); break;
    case 4: dot_4(x); break;
    default: dot_8(x); break;
    }
}
