/* Caches for tests (cache_case.h). */
#include "cache_case.h"
#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cache_case cache_case_make(const fovea_context *ctx, const fovea_context *scalar) {
    return (cache_case){.ctx = ctx,
                        .scalar = scalar,
                        .q_dtype = FOVEA_DTYPE_F32,
                        .k_dtype = FOVEA_DTYPE_F32,
                        .v_dtype = FOVEA_DTYPE_F32,
                        .windows = {-1, -1},
                        .max_pages = 64};
}

/* One layer, without windows and rope. */
static fovea_kv_cache_desc plain_cache(const cache_case *c, int64_t max_pages) {
    fovea_kv_cache_desc d;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = CACHE_KV_HEADS;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.k_dtype = c->k_dtype;
    d.v_dtype = c->v_dtype;
    d.max_pages = max_pages;
    return d;
}

fovea_kv_cache *cache_make(const cache_case *c) {
    fovea_kv_cache_desc d = plain_cache(c, c->max_pages);
    fovea_kv_cache *cache;
    d.layers = CACHE_LAYERS;
    d.windows = c->windows;
    d.rope = c->rope;
    d.placement = c->placement;
    if (!test_check(fovea_kv_cache_create(c->ctx, &d, &cache) == FOVEA_OK, "create: %s", fovea_error_detail()))
        abort();
    return cache;
}

shadow *cache_add(fovea_kv_cache *cache) {
    shadow *s = must_alloc(1, sizeof *s);
    s->length = 0;
    test_check(fovea_kv_cache_add(cache, &s->number) == FOVEA_OK, "add: %s", fovea_error_detail());
    return s;
}

shadow *cache_fork(fovea_kv_cache *cache, const shadow *from) {
    shadow *s = must_alloc(1, sizeof *s);
    *s = *from;
    test_check(fovea_kv_cache_fork(cache, from->number, &s->number) == FOVEA_OK, "fork: %s", fovea_error_detail());
    return s;
}

fovea_kv_stats cache_stats(fovea_kv_cache *cache) {
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    test_check(fovea_kv_cache_stats(cache, &stats) == FOVEA_OK, "info: %s", fovea_error_detail());
    return stats;
}

char *cache_save(fovea_kv_cache *cache, const shadow *s, size_t *size) {
    test_check(fovea_kv_cache_save(cache, s->number, NULL, 0, size) == FOVEA_OK, "size: %s", fovea_error_detail());
    char *data = must_alloc((int64_t)*size, 1);
    test_check(fovea_kv_cache_save(cache, s->number, data, *size, size) == FOVEA_OK, "save: %s", fovea_error_detail());
    return data;
}

void cache_seal(char *data, size_t size) {
    const uint64_t hash = fv_hash(FV_HASH_BEGIN, data, size - sizeof hash);
    memcpy(data + size - sizeof hash, &hash, sizeof hash);
}

/* A row of a token's channels, as float32. kind: keys, values, queries. */
static void token_row(int32_t token, int64_t layer, int64_t head, int kind, int64_t n, float *row) {
    rng r = {(uint64_t)token * 1000003u + (uint64_t)layer * 10007u + (uint64_t)head * 101u + (uint64_t)kind};
    rng_u64(&r);
    for (int64_t i = 0; i < n; i++)
        row[i] = rng_uniform(&r, -1.0f, 1.0f);
}

fovea_status cache_append(fovea_kv_cache *cache, shadow *const *sequences, int64_t count, const int64_t *tokens,
                          int32_t first_token) {
    int64_t longest = 0, numbers[16];
    for (int64_t i = 0; i < count; i++) {
        longest = tokens[i] > longest ? tokens[i] : longest;
        numbers[i] = sequences[i]->number;
    }
    fovea_status status = fovea_kv_cache_reserve(cache, count, numbers, tokens);
    if (status != FOVEA_OK)
        return status;
    float *k = must_alloc(count * CACHE_KV_HEADS * longest * CACHE_DIM + 1, sizeof *k),
          *v = must_alloc(count * CACHE_KV_HEADS * longest * CACHE_VALUES + 1, sizeof *v);
    const bool bthd = first_token % 2; /* tokens before heads in memory */
    for (int64_t layer = 0; layer < CACHE_LAYERS; layer++) {
        poison_fill(k, count * CACHE_KV_HEADS * longest * CACHE_DIM); /* past lens nothing is read */
        for (int64_t i = 0; i < count; i++)
            for (int64_t h = 0; h < CACHE_KV_HEADS; h++)
                for (int64_t t = 0; t < tokens[i]; t++) {
                    const int64_t row =
                        bthd ? (i * longest + t) * CACHE_KV_HEADS + h : (i * CACHE_KV_HEADS + h) * longest + t;
                    token_row(first_token + (int32_t)(i * longest + t), layer, h, 0, CACHE_DIM, k + row * CACHE_DIM);
                    token_row(first_token + (int32_t)(i * longest + t), layer, h, 1, CACHE_VALUES,
                              v + row * CACHE_VALUES);
                }
        fovea_kv_append_args a;
        fovea_kv_append_args_init(&a);
        a.layer = layer;
        a.count = count;
        a.sequences = numbers;
        a.lens = tokens;
        a.k = bthd ? fovea_tensor_bthd(k, FOVEA_DTYPE_F32, count, longest, CACHE_KV_HEADS, CACHE_DIM)
                   : fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, count, CACHE_KV_HEADS, longest, CACHE_DIM);
        a.v = bthd ? fovea_tensor_bthd(v, FOVEA_DTYPE_F32, count, longest, CACHE_KV_HEADS, CACHE_VALUES)
                   : fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, count, CACHE_KV_HEADS, longest, CACHE_VALUES);
        status = fovea_kv_cache_append(cache, &a);
        test_check(status == FOVEA_OK, "append after reserve: %s", fovea_error_detail());
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t t = 0; t < tokens[i]; t++) {
            shadow *s = sequences[i];
            s->token[s->length] = first_token + (int32_t)(i * longest + t);
            s->attended[s->length++] = 1;
        }
    free(k);
    free(v);
    return FOVEA_OK;
}

fovea_status cache_append_one(fovea_kv_cache *cache, const shadow *s, int64_t layer) {
    float row[CACHE_KV_HEADS * CACHE_VALUES];
    fovea_kv_append_args a;
    for (int i = 0; i < CACHE_KV_HEADS * CACHE_VALUES; i++)
        row[i] = 1.0f;
    fovea_kv_append_args_init(&a);
    a.layer = layer;
    a.count = 1;
    a.sequences = &s->number;
    a.k = fovea_tensor_bhtd(row, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 1, CACHE_DIM);
    a.v = fovea_tensor_bhtd(row, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 1, CACHE_VALUES);
    return fovea_kv_cache_append(cache, &a);
}

void cache_queries(const shadow *s, int64_t layer, int64_t rows, float *q) {
    for (int64_t h = 0; h < CACHE_Q_HEADS; h++)
        for (int64_t i = 0; i < rows; i++)
            token_row(s->token[s->length - rows + i], layer, h, 2, CACHE_DIM, q + (h * rows + i) * CACHE_DIM);
}

/* The operands of a case other than q, k and v; positions of a bias are those of a sequence's first columns keys. */
static void set_features(const cache_case *c, fovea_attention_args *args, int64_t columns) {
    enum { ENTRIES = 101 };
    static float sinks[CACHE_Q_HEADS], bias[CACHE_Q_HEADS * CACHE_LONGEST], table[CACHE_Q_HEADS * ENTRIES];
    rng r = {1};
    if (c->features == 0)
        return;
    rng_fill_normal(&r, sinks, CACHE_Q_HEADS);
    rng_fill_normal(&r, bias, CACHE_Q_HEADS * CACHE_LONGEST);
    rng_fill_normal(&r, table, CACHE_Q_HEADS * ENTRIES);
    for (int64_t i = 0; i < CACHE_Q_HEADS * CACHE_LONGEST; i += 7)
        bias[i] = -INFINITY;
    if (c->features & CACHE_SINKS)
        args->sinks = sinks;
    if (c->features & CACHE_BIAS) {
        args->bias = fovea_tensor_bhtd(bias, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, columns);
        args->bias.stride[0] = 0;
        args->bias.stride[1] = CACHE_LONGEST;
    }
    const int64_t entries = c->features & CACHE_ALIBI ? 1 : c->features & CACHE_T5 ? 32 : ENTRIES;
    if (c->features & (CACHE_ALIBI | CACHE_TOEPLITZ | CACHE_T5))
        args->relative = fovea_tensor_bhtd(table, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, entries);
}

fovea_attention_desc cache_desc(const cache_case *c, int64_t layer, int64_t batch, int64_t rows, int64_t keys) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.batch = batch;
    d.q_heads = CACHE_Q_HEADS;
    d.kv_heads = CACHE_KV_HEADS;
    d.q_len = rows;
    d.kv_len = keys;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.window_left = c->windows[layer];
    d.dtype = c->q_dtype;
    d.k_dtype = c->k_dtype;
    d.v_dtype = c->v_dtype;
    d.out_dtype = FOVEA_DTYPE_F32;
    d.arithmetic = c->arithmetic;
    attention_case with = {.desc = d};
    for (int i = 0; i < CASE_FEATURES; i++)
        if (c->features >> i & 1)
            case_feature(&with, i);
    return with.desc;
}

void cache_narrow(const cache_case *c, float *q, int64_t n) {
    if (c->q_dtype == FOVEA_DTYPE_F32)
        return;
    void *narrow = must_alloc(n, 2);
    fovea_convert(n, q, FOVEA_DTYPE_F32, narrow, c->q_dtype);
    memcpy(q, narrow, (size_t)n * 2);
    free(narrow);
}

static void run(const fovea_context *ctx, const fv_attention_choice *choice, const fovea_attention_desc *d,
                const fovea_attention_args *args, const char *what) {
    fovea_attention_plan *plan;
    fovea_status status = fv_attention_plan_create_chosen(ctx, d, choice, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, args, NULL, 0);
    test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    fovea_attention_plan_destroy(plan);
}

void *cache_rows(const cache_case *c, const shadow *s, int64_t layer, bool values) {
    const int kind = values ? 1 : 0;
    const fovea_dtype dtype = values ? c->v_dtype : c->k_dtype;
    const int64_t channels = kind ? CACHE_VALUES : CACHE_DIM, n = CACHE_KV_HEADS * s->length * channels;
    float *rows = must_alloc(n, sizeof *rows);
    int64_t *positions = must_alloc(s->length, sizeof *positions);
    for (int64_t i = 0; i < s->length; i++)
        positions[i] = i;
    for (int64_t h = 0; h < CACHE_KV_HEADS; h++)
        for (int64_t t = 0; t < s->length; t++)
            token_row(s->token[t], layer, h, kind, channels, rows + (h * s->length + t) * channels);
    const fovea_tensor all = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, s->length, channels);
    if (c->rope && kind == 0)
        test_check(fovea_rope_apply(c->scalar, c->rope, &all, positions, &all) == FOVEA_OK, "%s", fovea_error_detail());
    free(positions);
    if (dtype == FOVEA_DTYPE_F32)
        return rows;
    void *narrow = must_alloc(n, 2);
    fovea_convert(n, rows, FOVEA_DTYPE_F32, narrow, dtype);
    free(rows);
    return narrow;
}

/* Keys or values that are integers have no tensors: all tokens at once in a cache of their own, keys rotated before. */
static fovea_kv_cache *own_cache(const cache_case *c, const shadow *s, int64_t layer, int64_t *sequence) {
    cache_case floats = *c;
    floats.k_dtype = floats.v_dtype = FOVEA_DTYPE_F32;
    float *k = cache_rows(&floats, s, layer, false), *v = cache_rows(&floats, s, layer, true);
    const fovea_kv_cache_desc d = plain_cache(c, s->length / FOVEA_KV_PAGE_KEYS + 1);
    fovea_kv_append_args a;
    fovea_kv_cache *cache;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = sequence;
    a.rotated = 1;
    a.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, s->length, CACHE_DIM);
    a.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, s->length, CACHE_VALUES);
    bool made = fovea_kv_cache_create(c->scalar, &d, &cache) == FOVEA_OK &&
                fovea_kv_cache_add(cache, sequence) == FOVEA_OK && fovea_kv_cache_append(cache, &a) == FOVEA_OK;
    for (int64_t at = 0, end; at < s->length && made; at = end) {
        for (end = at; end < s->length && !s->attended[end] == !s->attended[at];)
            end++;
        made = s->attended[at] || fovea_kv_cache_evict(cache, *sequence, at, end) == FOVEA_OK;
    }
    if (!test_check(made, "a cache for what is wanted: %s", fovea_error_detail()))
        abort();
    free(k);
    free(v);
    return cache;
}

static void want_scaled(const cache_case *c, const shadow *s, int64_t layer, fovea_attention_desc *d,
                        fovea_attention_args *args) {
    int64_t sequence;
    args->cache = own_cache(c, s, layer, &sequence);
    args->cache_sequences = &sequence;
    d->page_keys = FOVEA_KV_PAGE_KEYS;
    run(c->scalar, NULL, d, args, "at once");
    fovea_kv_cache_destroy(args->cache);
}

void cache_want(const cache_case *c, const shadow *s, int64_t layer, int64_t rows, float *out) {
    fovea_attention_desc d = cache_desc(c, layer, 1, rows, s->length);
    const bool scaled = fv_dtype_paged(c->k_dtype) || fv_dtype_paged(c->v_dtype);
    void *k = scaled ? NULL : cache_rows(c, s, layer, false), *v = scaled ? NULL : cache_rows(c, s, layer, true);
    float *q = must_alloc(CACHE_Q_HEADS * rows * CACHE_DIM, sizeof *q);
    cache_queries(s, layer, rows, q);
    cache_narrow(c, q, CACHE_Q_HEADS * rows * CACHE_DIM);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, c->q_dtype, 1, CACHE_Q_HEADS, rows, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, rows, CACHE_VALUES);
    set_features(c, &args, s->length);
    if (scaled) {
        want_scaled(c, s, layer, &d, &args);
        free(q);
        return;
    }
    args.k = fovea_tensor_bhtd(k, c->k_dtype, 1, CACHE_KV_HEADS, s->length, CACHE_DIM);
    args.v = fovea_tensor_bhtd(v, c->v_dtype, 1, CACHE_KV_HEADS, s->length, CACHE_VALUES);
    d.mask = FOVEA_MASK_KEY_PADDING;
    args.mask =
        (fovea_tensor){(void *)(uintptr_t)s->attended, FOVEA_DTYPE_BOOL, {1, 1, 1, s->length}, {0, 0, 0, 1}, NULL};
    run(c->scalar, NULL, &d, &args, "contiguous");
    free(q);
    free(k);
    free(v);
}

int64_t cache_check(const cache_case *c, fovea_kv_cache *cache, shadow *const *sequences, int64_t count, int64_t rows,
                    const char *what) {
    const int64_t q_floats = CACHE_Q_HEADS * rows * CACHE_DIM, o_floats = CACHE_Q_HEADS * rows * CACHE_VALUES;
    float *q = must_alloc(count * q_floats, sizeof *q), *out = must_alloc(count * o_floats, sizeof *out),
          *want = must_alloc(o_floats, sizeof *want);
    int64_t numbers[16], offsets[16];
    fovea_attention_stats stats;
    fovea_attention_stats_init(&stats);
    for (int64_t layer = 0; layer < CACHE_LAYERS; layer++) {
        fovea_attention_desc d = cache_desc(c, layer, count, rows, CACHE_LONGEST);
        d.page_keys = FOVEA_KV_PAGE_KEYS;
        if (c->offsets)
            d.causal = FOVEA_CAUSAL_OFFSET;
        for (int64_t i = 0; i < count; i++) {
            cache_queries(sequences[i], layer, rows, q + i * q_floats);
            numbers[i] = sequences[i]->number;
            offsets[i] = sequences[i]->length - rows;
        }
        cache_narrow(c, q, count * q_floats);
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(q, c->q_dtype, count, CACHE_Q_HEADS, rows, CACHE_DIM);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, count, CACHE_Q_HEADS, rows, CACHE_VALUES);
        args.cache = cache;
        args.cache_layer = layer;
        args.cache_sequences = numbers;
        args.q_offsets = c->offsets ? offsets : NULL;
        args.stats = &stats;
        set_features(c, &args, CACHE_LONGEST);
        run(c->ctx, c->choice, &d, &args, what);
        for (int64_t i = 0; i < count; i++) {
            cache_want(c, sequences[i], layer, rows, want);
            test_same(out + i * o_floats, want, o_floats, "%s: sequence %d of %d, layer %d, %d tokens, %d rows", what,
                      (int)i, (int)count, (int)layer, (int)sequences[i]->length, (int)rows);
        }
    }
    free(q);
    free(out);
    free(want);
    return stats.shared_prefixes;
}
