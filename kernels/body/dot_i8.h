/* dot of int8: scores of few rows from keys as they lie in memory (int8.h has the contract). FV_VECTORS: so many vectors of keys at once.
 *
 * As dot.h, with words of four channels, which are multiplied and added to sums of 32 bits by the tier's units (simd/int8_*.h). Blocks
 * of 16 channels, four words, are transposed in registers, for four rows at most: eight go over the same keys twice. Keys and channels
 * that are not there are zeros of a copy. Bound: memory, or the products; of AVX-512 on Zen 4 loads, one a cycle: a word of a query
 * is loaded once for two vectors of keys. Figures: docs/measurements.md, "dot.h". */
#define DOT_INLINE static inline __attribute__((always_inline))

enum {
    WORDS = 4,         /* of a block */
    BLOCK = WORDS * 4, /* channels of it */
    ROWS = 4,          /* at once */
    KEYS = FV_VECTORS * FV_W,
    LINE_BYTES = 64, /* of the cache */
    AHEAD =
        4096 /* bytes from here: keys that are prefetched; as many on, into the second-level cache, which waits for more lines */
};

/* What is prefetched, as many bytes as are read: keys into the first-level cache, what comes after them into the second. */
typedef struct dot_ahead {
    const char *keys, *keys_end, *next;
} dot_ahead;

DOT_INLINE void dot_fetch(const char **at, const char *end, const int level) {
    if (!*at)
        return;
    for (int i = 0; i < KEYS * BLOCK; i += LINE_BYTES)
        if (level == 1) {
            __builtin_prefetch(*at + i, 0, 3);
            __builtin_prefetch((const char *)((uintptr_t)*at + AHEAD + (uintptr_t)i), 0, 2);
        } else
            __builtin_prefetch(*at + i, 0, 2);
    *at += KEYS * BLOCK;
    *at = *at < end ? *at : NULL;
}

/* A block of which some keys, or channels, are not there. */
static __attribute__((noinline)) void dot_edge(int8_t *copy, const int8_t *k, int64_t ldk, int64_t keys,
                                               int64_t channels) {
    memset(copy, 0, FV_W * BLOCK);
    for (int64_t j = 0; j < keys && j < FV_W; j++)
        memcpy(copy + j * BLOCK, k + j * ldk, (size_t)(channels < BLOCK ? channels : BLOCK));
}

/* Columns that are written. */
DOT_INLINE int64_t dot_columns(const fv_dot_i8_args *x) { return (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* Sums of a vector of keys from key at on become scores: those of rows from row to end, a vector a row. */
static __attribute__((noinline)) void dot_store(const fv_dot_i8_args *x, int64_t at, int64_t row, int64_t end,
                                                const float *sums) {
    const int64_t left = x->keys - at;
    const vf k_scales = left >= FV_W ? v_load(x->k_scales + at)
                        : left > 0   ? v_load_n(x->k_scales + at, left)
                                     : v_set1(0.0f);
    for (int64_t i = row; i < end; i++, sums += FV_W) {
        const vf s = v_mul(v_load(sums), v_mul(v_set1(x->q_scales[i]), k_scales));
        v_store(x->s + i * x->lds + at, s);
        if (x->row_max) {
            float *max = x->row_max + i * FV_LANES + at % FV_LANES;
            v_store(max, v_max(s, at < FV_LANES && !x->accumulate_max ? v_set1(-INFINITY) : v_load(max)));
        }
    }
}

/* The products of a block, words of queries being stride apart. */
DOT_INLINE void dot_products(vf words[][WORDS], const fv_i8_word *q, int64_t stride, v_sums sums[][ROWS],
                             const int rows) {
#pragma GCC unroll 4
    for (int w = 0; w < WORDS; w++, q += stride) {
        vi8 four[FV_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < FV_VECTORS; v++)
            four[v] = v_i8(words[v][w]);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int v = 0; v < FV_VECTORS; v++)
                sums[v][i] = v_sums_add(sums[v][i], four[v], q + i);
    }
}

/* KEYS keys from key on, of which some may not be there, with rows from row on. */
DOT_INLINE void dot_keys(const fv_dot_i8_args *x, int64_t key, int64_t row, dot_ahead *t, const int rows) {
    const int64_t stride = rows < ROWS ? rows : fv_dot_stride(x->rows);
    const fv_i8_word *q = x->q + row;
    v_sums sums[FV_VECTORS][ROWS];
#pragma GCC unroll 2
    for (int v = 0; v < FV_VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sums[v][i] = v_no_sums();
    for (int64_t c = 0; c < x->channels; c += BLOCK, q += WORDS * stride) {
        vf words[FV_VECTORS][WORDS];
#pragma GCC unroll 2
        for (int v = 0; v < FV_VECTORS; v++) {
            const int64_t at = key + v * FV_W;
            const int8_t *k = x->k + at * x->ldk + c;
            int64_t ldk = x->ldk;
            int8_t copy[FV_W * BLOCK];
            if (__builtin_expect(at + FV_W > x->keys || c + BLOCK > x->channels, 0)) {
                dot_edge(copy, k, ldk, x->keys - at, x->channels - c);
                k = copy;
                ldk = BLOCK;
            }
            v_load_transposed_quads(words[v], k, ldk);
        }
        dot_fetch(&t->keys, t->keys_end, 1);
        dot_fetch(&t->next, x->next_end, 2);
        dot_products(words, q, stride, sums, rows);
    }
    const int64_t end = row + rows < x->rows ? row + rows : x->rows;
#pragma GCC unroll 2
    for (int v = 0; v < FV_VECTORS; v++) {
        float floats[ROWS * FV_W];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            v_store(floats + i * FV_W, v_sums_float(sums[v][i], x->q_sums[row + i < end ? row + i : row]));
        if (key + v * FV_W < dot_columns(x))
            dot_store(x, key + v * FV_W, row, end, floats);
    }
}

DOT_INLINE void dot_all(const fv_dot_i8_args *x, const int rows) {
    dot_ahead t = {NULL, NULL, x->next};
    if (x->ldk < x->channels + LINE_BYTES) { /* only rows one behind the other are prefetched */
        t.keys = (const char *)((uintptr_t)x->k + AHEAD);
        t.keys_end = (const char *)((uintptr_t)x->k + (uintptr_t)(x->keys * x->ldk));
        t.keys = t.keys < t.keys_end ? t.keys : NULL;
    }
    for (int64_t key = 0; key < dot_columns(x); key += KEYS) {
        dot_ahead none = {NULL, NULL, NULL};
        for (int64_t row = 0; row < x->rows; row += rows)
            dot_keys(x, key, row, row ? &none : &t, rows);
    }
}

static __attribute__((noinline)) void dot_1(const fv_dot_i8_args *x) { dot_all(x, 1); }
static __attribute__((noinline)) void dot_2(const fv_dot_i8_args *x) { dot_all(x, 2); }
static __attribute__((noinline)) void dot_4(const fv_dot_i8_args *x) { dot_all(x, 4); }

void FV_NAME(const fv_dot_i8_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->ldk >= 0);
    assert(x->channels >= 1 && x->channels <= FV_I8_CHANNELS);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    switch (x->rows) {
    case 1: dot_1(x); break;
    case 2: dot_2(x); break;
    default: dot_4(x); break;
    }
}
