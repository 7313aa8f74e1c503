/* Keys and values kept as 4-bit integers (fovea/cache.h), one side or both: what a saved sequence has of them are the
 * bytes that int4.h's functions make of each row, whatever type is appended and in every mode of the caller's, rows
 * with infinities and NaN and tiny ones among them; tokens at once, one by one, in forks, behind a truncation and from
 * a file give the same bytes; sizes; and what takes no 4-bit elements. The functions themselves: test_int4.c. */
#include "cache_holder.h"
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 150 };

static const fovea_dtype floats[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

/* Rows of every size, some of zeros, some with what is no number. */
static void make_rows(rng *r, int64_t n, float *rows) {
    for (int64_t t = 0; t < TOKENS; t++, rows += n) {
        const int size = t % 3 ? 0 : (int)rng_between(r, -150, 126);
        for (int64_t i = 0; i < n; i++)
            rows[i] = t % 11 == 5 ? 0.0f : ldexpf(rng_normal(r), size);
        if (t % 17 == 3)
            rows[rng_below(r, n)] = t % 2 ? -INFINITY : NAN;
    }
}

/* Bytes of a row and of its scales. */
static int64_t row_bytes(fovea_dtype dtype, int64_t n, bool values) {
    return dtype == FOVEA_DTYPE_I4 ? 4 * fv_i4_words(values ? FV_I4_VALUE : FV_I4_KEY, n) : 4 * n;
}

static int64_t scale_bytes(fovea_dtype dtype, int64_t n) { return dtype == FOVEA_DTYPE_I4 ? 2 * fv_i4_groups(n) : 0; }

/* One side of a saved sequence, by the functions of int4.h. */
static void check_side(const char *rows, const char *scales, const float *from, int64_t n, bool values,
                       const char *what) {
    uint32_t words[FV_I8_CHANNELS];
    uint16_t want[FV_I8_CHANNELS];
    float rotated[FV_I8_CHANNELS];
    const int64_t bytes = row_bytes(FOVEA_DTYPE_I4, n, values), more = scale_bytes(FOVEA_DTYPE_I4, n);
    for (int64_t t = 0; t < TOKENS; t++) {
        fv_i4_rotate(1, n, 0, from + t * n, n, rotated, n);
        fv_i4_pack(values ? FV_I4_VALUE : FV_I4_KEY, n, rotated, words, 1, want, 1);
        test_check(memcmp(rows + t * bytes, words, (size_t)bytes) == 0 &&
                       memcmp(scales + t * more, want, (size_t)more) == 0,
                   "%s of %d channels, row %d: other integers, or scales", what, (int)n, (int)t);
    }
}

static void check_rule(const fovea_context *ctx, const int64_t widths[2], const fovea_dtype types[2], fovea_dtype from,
                       int mode, rng *r) {
    const holder x = hold(ctx, widths[0], widths[1], types[0], types[1]);
    float *rows[2];
    for (int side = 0; side < 2; side++) {
        rows[side] = must_alloc(TOKENS * widths[side], sizeof(float));
        make_rows(r, widths[side], rows[side]);
    }
    size_t size;
    char *saved = save_rows(&x, rows, from, TOKENS, mode, &size);
    const char *v_scales = saved + size - sizeof(uint64_t) - TOKENS * scale_bytes(types[1], widths[1]),
               *k_scales = v_scales - TOKENS * scale_bytes(types[0], widths[0]),
               *v = k_scales - TOKENS * row_bytes(types[1], widths[1], true),
               *k = v - TOKENS * row_bytes(types[0], widths[0], false);
    if (types[0] == FOVEA_DTYPE_I4)
        check_side(k, k_scales, rows[0], widths[0], false, "keys");
    if (types[1] == FOVEA_DTYPE_I4)
        check_side(v, v_scales, rows[1], widths[1], true, "values");
    free(rows[0]);
    free(rows[1]);
    free(saved);
    fovea_kv_cache_destroy(x.cache);
}

static void test_rule(const fovea_context *ctx) {
    static const int64_t sizes[] = {1, 7, 24, 64, 80, 128, 576, 1024};
    static const fovea_dtype types[][2] = {
        {FOVEA_DTYPE_I4, FOVEA_DTYPE_I4}, {FOVEA_DTYPE_F32, FOVEA_DTYPE_I4}, {FOVEA_DTYPE_I4, FOVEA_DTYPE_F32}};
    rng r = rng_stream(test_seed(), "rule");
    for (int i = 0; i < 8; i++)
        for (int type = 0; type < 3; type++)
            for (int mode = 0; mode < 4; mode++)
                check_rule(ctx, (const int64_t[2]){sizes[i], sizes[7 - i]}, types[(i + mode + type) % 3], floats[type],
                           mode, &r);
}

/* ----------------------------------------------------------------------------------------------------- histories -- */

static void append_some(const holder *x, int64_t sequence, const float *k, const float *v, int64_t from,
                        int64_t tokens) {
    holder at = *x;
    at.sequence = sequence;
    append(&at, k + from * x->dim, v + from * x->values, FOVEA_DTYPE_F32, tokens);
}

static void check_same(const holder *x, int64_t sequence, const char *want, size_t want_size, const char *what) {
    size_t size;
    char *saved = save(x, sequence, &size);
    test_check(size == want_size && memcmp(saved, want, size) == 0, "%s: other bytes", what);
    free(saved);
}

static void check_histories(const fovea_context *ctx, const fovea_context *other, fovea_dtype k_dtype,
                            fovea_dtype v_dtype) {
    enum { DIM = 48, VALUES = 72, LONG = 600 };
    rng r = rng_stream(test_seed(), "histories");
    float *k = must_alloc(LONG * DIM, sizeof *k), *v = must_alloc(LONG * VALUES, sizeof *v);
    rng_fill_normal(&r, k, LONG * DIM);
    rng_fill_normal(&r, v, LONG * VALUES);
    const holder all = hold(ctx, DIM, VALUES, k_dtype, v_dtype), there = hold(other, DIM, VALUES, k_dtype, v_dtype);
    append_some(&all, all.sequence, k, v, 0, LONG);
    size_t size;
    char *want = save(&all, all.sequence, &size);
    int64_t version, fork, loaded;
    memcpy(&version, want + 8, sizeof version);
    test_check(version == 3, "saved in version %d", (int)version);
    for (int64_t t = 0; t < 270; t++)
        append_some(&there, there.sequence, k, v, t, 1);
    require(fovea_kv_cache_fork(there.cache, there.sequence, &fork), "fork"); /* in the middle of a page and a group */
    append_some(&there, there.sequence, k, v, 0, 20);                         /* what the fork does not have */
    append_some(&there, fork, k, v, 270, LONG - 270);
    check_same(&there, fork, want, size, "a fork");
    require(fovea_kv_cache_truncate(there.cache, there.sequence, 267), "truncate");
    require(fovea_kv_cache_remove(there.cache, fork), "remove");
    append_some(&there, there.sequence, k, v, 267, LONG - 267);
    check_same(&there, there.sequence, want, size, "behind a truncation");
    require(fovea_kv_cache_remove(there.cache, there.sequence), "remove");
    require(fovea_kv_cache_load(there.cache, want, size, &loaded), "load");
    check_same(&there, loaded, want, size, "loaded");
    free(want);
    require(fovea_kv_cache_evict(all.cache, all.sequence, 30, 290), "evict");
    require(fovea_kv_cache_evict(there.cache, loaded, 30, 290), "evict");
    want = save(&all, all.sequence, &size);
    check_same(&there, loaded, want, size, "evicted");
    free(want);
    free(k);
    free(v);
    fovea_kv_cache_destroy(all.cache);
    fovea_kv_cache_destroy(there.cache);
}

/* ------------------------------------------------------------------------------------------------------- refused -- */

static void test_sizes(const fovea_context *ctx) {
    const holder x = hold(ctx, 128, 64, FOVEA_DTYPE_I4, FOVEA_DTYPE_I4);
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    require(fovea_kv_cache_stats(x.cache, &stats), "stats");
    test_check(stats.token_bytes == 108 && stats.page_bytes == 256 * 108, "%d and %d bytes instead of 0.5625 a channel",
               (int)stats.token_bytes, (int)stats.page_bytes);
    fovea_kv_cache_destroy(x.cache);
}

static void test_refused(const fovea_context *ctx) {
    float numbers[64] = {0};
    const fovea_tensor t = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_I4, 1, 1, 1, 64);
    fovea_kv_cache_desc c;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&c);
    c.kv_heads = c.max_pages = c.head_dim = c.value_dim = 1;
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_I4;
    c.head_dim = 1025;
    check_status("keys", fovea_kv_cache_create(ctx, &c, &cache), FOVEA_ERROR_SHAPE, "head_dim is 1025|1024");
    c.head_dim = 1;
    c.value_dim = 1025;
    check_status("values", fovea_kv_cache_create(ctx, &c, &cache), FOVEA_ERROR_SHAPE, "value_dim is 1025|1024");

    const holder x = hold(ctx, 64, 64, FOVEA_DTYPE_I4, FOVEA_DTYPE_I4);
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &x.sequence;
    a.k = a.v = t;
    check_status("append", fovea_kv_cache_append(x.cache, &a), FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I4");
    fovea_kv_cache_destroy(x.cache);

    check_status("convert", fovea_convert(64, numbers, FOVEA_DTYPE_I4, numbers, FOVEA_DTYPE_F32), FOVEA_ERROR_DTYPE,
                 "FOVEA_DTYPE_I4");
    fovea_linear_desc linear;
    fovea_linear *packed;
    fovea_linear_desc_init(&linear);
    linear.in_features = 8;
    linear.part.weight = fovea_matrix_in_out(numbers, FOVEA_DTYPE_I4, 8, 8);
    check_status("linear map", fovea_linear_create(ctx, &linear, &packed), FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I4");

    fovea_attention_desc d;
    fovea_attention_plan *plan;
    for (int i = 0; i < 4; i++) {
        fovea_attention_desc_init(&d);
        d.q_heads = d.kv_heads = d.q_len = d.kv_len = d.head_dim = d.value_dim = 1;
        *(i == 0 ? &d.dtype : i == 1 ? &d.k_dtype : i == 2 ? &d.v_dtype : &d.out_dtype) = FOVEA_DTYPE_I4;
        check_status("plan", fovea_attention_plan_create(ctx, &d, &plan), FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I4");
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_int4", NULL);
    const case_contexts x = contexts_make();
    test_rule(x.one);
    check_histories(x.three, x.scalar, FOVEA_DTYPE_I4, FOVEA_DTYPE_I4);
    check_histories(x.one, x.three, FOVEA_DTYPE_I8, FOVEA_DTYPE_I4);
    check_histories(x.one, x.scalar, FOVEA_DTYPE_I4, FOVEA_DTYPE_BF16);
    test_sizes(x.one);
    test_refused(x.one);
    contexts_free(&x);
    return test_end();
}
