/* dot of int8: scores of few rows from keys in lanes (int8.h has the contract).
 *
 * As dot_lanes.h, with words of four channels, which are multiplied and added to sums of 32 bits by the tier's units (simd/int8_*.h).
 * Bound: memory, or the products; of AVX-512 on Zen 4 loads, one a cycle. Figures: docs/measurements.md, "dot.h". */
#define DOT_INLINE static inline __attribute__((always_inline))

enum {
    VECTORS = FV_KEY_GROUP / FV_W, /* of a group */
    ROWS = FV_W == 16  ? 4
           : FV_W == 8 ? 2
                       : 1, /* at once, whose sums registers hold */
    LINE_BYTES = 64
};

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

/* A group, whose first place has the column key, with rows from row on; columns before 0 and past the last are not there. */
DOT_INLINE void dot_group(const fv_dot_i8_args *x, const float *words, int64_t key, int64_t row, const char **next,
                          const int rows) {
    const int64_t stride = fv_dot_stride(x->rows);
    const fv_i8_word *q = x->q + row;
    v_sums sums[VECTORS][ROWS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sums[v][i] = v_no_sums();
    for (int64_t c = 0; c < x->channels; c += 4, q += stride, words += FV_KEY_GROUP) {
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) {
            const vi8 four = v_i8(v_load(words + v * FV_W));
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sums[v][i] = v_sums_add(sums[v][i], four, q + i);
        }
        if (row > 0 || !*next)
            continue;
        for (int i = 0; i < FV_KEY_GROUP * 4; i += LINE_BYTES, *next += LINE_BYTES)
            __builtin_prefetch(*next, 0, 2);
    }
    float floats[VECTORS][ROWS * FV_W];
    const int64_t end = row + rows < x->rows ? row + rows : x->rows;
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            v_store(floats[v] + i * FV_W, v_sums_float(sums[v][i], x->q_sums[row + i < end ? row + i : row]));
    for (int v = 0; v < VECTORS; v++)
        if (key + v * FV_W >= 0 && key + v * FV_W < (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES)
            dot_store(x, key + v * FV_W, row, end, floats[v]);
}

DOT_INLINE void dot_all(const fv_dot_i8_args *x, const int rows) {
    const int8_t *group = x->k - x->first * 4;
    const char *next = x->next;
    for (int64_t key = -x->first; key < x->keys; key += FV_KEY_GROUP, group += x->ldk) {
        for (int64_t row = 0; row < x->rows; row += rows)
            dot_group(x, (const float *)(const void *)group, key, row, &next, rows);
        next = next && next < (const char *)x->next_end ? next : NULL;
    }
}

static __attribute__((noinline)) void dot_1(const fv_dot_i8_args *x) { dot_all(x, 1); }
static __attribute__((noinline)) void dot_2(const fv_dot_i8_args *x) { dot_all(x, ROWS < 2 ? ROWS : 2); }
static __attribute__((noinline)) void dot_many(const fv_dot_i8_args *x) { dot_all(x, ROWS); }

void FV_NAME(const fv_dot_i8_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->ldk >= 0);
    assert(x->channels >= 1 && x->channels <= FV_I8_CHANNELS);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    assert(x->first == 0 || x->first == FV_LANES);
    switch (x->rows) {
    case 1: dot_1(x); break;
    case 2: dot_2(x); break;
    default: dot_many(x); break;
    }
}
