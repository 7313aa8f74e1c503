/* Writing into pages of the caller's own (fovea_kv_pages_append) and attention over them (args.pages): each pair of
 * types that a cache keeps, pages of any size that the types allow, tokens at once, in chunks and packed, by one thread
 * and by three: bytes of pages are the same, positions that no token came to keep theirs, and results have the bits of
 * a cache of these types. And what is refused, which leaves pages as they were. */
#include "cache_case.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, KEYS = 530, LONGEST = 700, HEADS = CACHE_KV_HEADS };

/* A caller's pool: pages of both sequences alternate, in descending order. */
typedef struct pool_of {
    fovea_kv_pages pages;
    void *memory[4]; /* of parts */
    int64_t bytes[4];
    int32_t table[2 * LONGEST];
    int64_t each; /* pages of a sequence */
} pool_of;

static int64_t scales_of(fovea_dtype dtype, int64_t channels) {
    return dtype == FOVEA_DTYPE_I8 ? 1 : dtype == FOVEA_DTYPE_I4 ? (channels + 31) / 32 : 0;
}

/* A part of pages [pages][heads][keys][channels], each token of which takes step elements. */
static fovea_tensor part_make(pool_of *x, int part, fovea_dtype dtype, int64_t pages, int64_t keys, int64_t channels,
                              int64_t step) {
    fovea_tensor t = fovea_tensor_bhtd(NULL, dtype, pages, HEADS, keys, step);
    t.shape[3] = channels;
    x->bytes[part] = pages * HEADS * keys * step * fv_dtype_bits(dtype) / 8;
    x->memory[part] = t.data = must_alloc(x->bytes[part] + 1, 1);
    memset(t.data, 0xff, (size_t)x->bytes[part]);
    return t;
}

static pool_of *pool_make(const cache_case *c, int64_t page_keys) {
    pool_of *x = must_alloc(1, sizeof *x);
    memset(x, 0, sizeof *x);
    x->each = (LONGEST + page_keys - 1) / page_keys;
    const int64_t pages = BATCH * x->each;
    const int64_t word[] = {c->k_dtype == FOVEA_DTYPE_I8   ? 4
                            : c->k_dtype == FOVEA_DTYPE_I4 ? 16
                                                           : 1,
                            c->v_dtype == FOVEA_DTYPE_I4 ? 8 : 1}; /* elements */
    for (int64_t i = 0; i < pages; i++)
        x->table[i] = (int32_t)(pages - 1 - (i % x->each * BATCH + i / x->each));
    fovea_kv_pages_init(&x->pages);
    const fovea_dtype types[] = {c->k_dtype, c->v_dtype};
    const int64_t channels[] = {CACHE_DIM, CACHE_VALUES};
    fovea_tensor *const parts[] = {&x->pages.k, &x->pages.v, &x->pages.k_scales, &x->pages.v_scales};
    for (int side = 0; side < 2; side++) {
        const int64_t scales = scales_of(types[side], channels[side]);
        *parts[side] = part_make(x, side, types[side], pages, page_keys, channels[side],
                                 (channels[side] + word[side] - 1) / word[side] * word[side]);
        if (scales)
            *parts[2 + side] = part_make(x, 2 + side, types[side] == FOVEA_DTYPE_I8 ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_F16,
                                         pages, page_keys, scales, scales);
    }
    x->pages.table = x->table;
    x->pages.table_stride = x->each;
    return x;
}

static void pool_free(pool_of *x) {
    for (int i = 0; i < 4; i++)
        free(x->memory[i]);
    free(x);
}

static void pool_same(const pool_of *x, const pool_of *want, const char *what) {
    for (int i = 0; i < 4; i++)
        test_check(x->bytes[i] == want->bytes[i] &&
                       (x->bytes[i] == 0 || memcmp(x->memory[i], want->memory[i], (size_t)x->bytes[i]) == 0),
                   "%s: part %d of pages has other bytes", what, i);
}

/* Rows of both sequences, float32: [BATCH][HEADS][KEYS][channels]. */
static float *rows_of(const cache_case *c, shadow *const s[BATCH], bool values) {
    const int64_t n = HEADS * KEYS * (values ? CACHE_VALUES : CACHE_DIM);
    cache_case floats = *c;
    floats.k_dtype = floats.v_dtype = FOVEA_DTYPE_F32;
    float *all = must_alloc(BATCH * n, sizeof *all);
    for (int b = 0; b < BATCH; b++) {
        float *rows = cache_rows(&floats, s[b], 0, values);
        memcpy(all + b * n, rows, (size_t)n * sizeof *rows);
        free(rows);
    }
    return all;
}

/* Tokens [begin, end) of one sequence by lens, the other one having none, or, packed, of both. */
static void append_some(const fovea_context *ctx, pool_of *x, float *k, float *v, int64_t begin, int64_t end, int one) {
    const int64_t lengths[BATCH] = {begin, begin},
                  lens[BATCH] = {one == 1 ? 0 : end - begin, one == 0 ? 0 : end - begin};
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = BATCH;
    a.k = fovea_tensor_tokens(fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, BATCH, HEADS, KEYS, CACHE_DIM), begin, end - begin);
    a.v = fovea_tensor_tokens(fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, BATCH, HEADS, KEYS, CACHE_VALUES), begin,
                              end - begin);
    a.lens = lens;
    const fovea_status status = fovea_kv_pages_append(ctx, &x->pages, lengths, &a);
    test_check(status == FOVEA_OK, "append to pages: %s", fovea_error_detail());
}

/* Sequence 1 alone, on one packed axis, by its list of pages. */
static void append_packed(const fovea_context *ctx, pool_of *x, const float *k, const float *v, int64_t begin,
                          int64_t end) {
    const int64_t n = HEADS * KEYS, ends[2] = {begin, end};
    int32_t start = (int32_t)x->each;
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.k = fovea_tensor_bhtd((void *)(uintptr_t)(k + n * CACHE_DIM), FOVEA_DTYPE_F32, 1, HEADS, KEYS, CACHE_DIM);
    a.v = fovea_tensor_bhtd((void *)(uintptr_t)(v + n * CACHE_VALUES), FOVEA_DTYPE_F32, 1, HEADS, KEYS, CACHE_VALUES);
    a.cu_seqlens = ends;
    x->pages.starts = &start;
    const fovea_status status = fovea_kv_pages_append(ctx, &x->pages, &begin, &a);
    x->pages.starts = NULL;
    test_check(status == FOVEA_OK, "append to a list of pages: %s", fovea_error_detail());
}

static void check_attention(const cache_case *c, shadow *const s[BATCH], const pool_of *x, int64_t page_keys,
                            int64_t rows) {
    const int64_t q_floats = CACHE_Q_HEADS * rows * CACHE_DIM, floats = CACHE_Q_HEADS * rows * CACHE_VALUES,
                  lens[BATCH] = {KEYS, KEYS};
    float *q = must_alloc(BATCH * q_floats, sizeof *q), *out = must_alloc(BATCH * floats, sizeof *out),
          *want = must_alloc(floats, sizeof *want);
    fovea_attention_desc d = cache_desc(c, 0, BATCH, rows, LONGEST);
    fovea_attention_args args;
    fovea_attention_plan *plan;
    d.page_keys = page_keys;
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    fovea_attention_args_init(&args);
    for (int b = 0; b < BATCH; b++)
        cache_queries(s[b], 0, rows, q + b * q_floats);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, BATCH, CACHE_Q_HEADS, rows, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, CACHE_Q_HEADS, rows, CACHE_VALUES);
    args.kv_lens = lens;
    args.pages = &x->pages;
    fovea_status status = fovea_attention_plan_create(c->ctx, &d, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, &args, NULL, 0);
    test_check(status == FOVEA_OK, "attention over pages of %d keys: %s", (int)page_keys, fovea_error_detail());
    for (int b = 0; b < BATCH; b++) {
        cache_want(c, s[b], 0, rows, want);
        test_same(out + b * floats, want, floats, "pages of %d keys, types %d and %d, %d rows, sequence %d",
                  (int)page_keys, (int)c->k_dtype, (int)c->v_dtype, (int)rows, b);
    }
    fovea_attention_plan_destroy(plan);
    free(q);
    free(out);
    free(want);
}

static void check_pages(const case_contexts *x, const cache_case *c, shadow *const s[BATCH], int64_t page_keys) {
    char what[64];
    float *k = rows_of(c, s, false), *v = rows_of(c, s, true);
    pool_of *whole = pool_make(c, page_keys), *parts = pool_make(c, page_keys);
    snprintf(what, sizeof what, "pages of %d keys, types %d and %d", (int)page_keys, (int)c->k_dtype, (int)c->v_dtype);
    append_some(x->three, whole, k, v, 0, KEYS, -1);
    for (int64_t begin = 0, end; begin < KEYS; begin = end) { /* one by one, then in growing chunks */
        end = begin < 40 ? begin + 1 : begin + begin / 3 < KEYS ? begin + begin / 3 : KEYS;
        append_some(x->scalar, parts, k, v, begin, end, 0);
        if (begin % 2)
            append_some(x->one, parts, k, v, begin, end, 1);
        else
            append_packed(x->one, parts, k, v, begin, end);
    }
    pool_same(parts, whole, what);
    check_attention(c, s, whole, page_keys, 1);
    check_attention(c, s, parts, page_keys, 19);
    pool_free(whole);
    pool_free(parts);
    free(k);
    free(v);
}

static void test_pairs(const case_contexts *x, shadow *const s[BATCH]) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8,
                                        FOVEA_DTYPE_I4};
    static const int64_t sizes[] = {32, 96, 192, 256, 512, 7, 100};
    enum { TYPES = sizeof types / sizeof types[0] };
    for (int i = 0; i < TYPES * TYPES; i++)
        for (int size = 0; size < 7; size++) {
            cache_case c = cache_case_make(i % 2 ? x->one : x->three, x->scalar);
            c.k_dtype = types[i / TYPES];
            c.v_dtype = types[i % TYPES];
            const bool i4 = c.k_dtype == FOVEA_DTYPE_I4 || c.v_dtype == FOVEA_DTYPE_I4;
            if (sizes[size] % (i4 ? 64 : c.k_dtype == FOVEA_DTYPE_I8 ? 32 : 1) == 0)
                check_pages(x, &c, s, sizes[size]);
        }
}

/* ------------------------------------------------------------------------------------------------------- refused -- */

typedef struct call {
    pool_of *pool;
    fovea_kv_append_args append;
    int64_t lengths[BATCH], number;
} call;

static void no_lengths(call *x) { (void)x; } /* which the caller leaves away */
static void no_table(call *x) { x->pool->pages.table = NULL; }
static void no_data(call *x) { x->pool->pages.k.data = NULL; }
static void no_scales(call *x) { x->pool->pages.k_scales.data = NULL; }
static void scales_of_floats(call *x) { x->pool->pages.v_scales = x->pool->pages.k_scales; }
static void other_scales(call *x) { x->pool->pages.k_scales.dtype = FOVEA_DTYPE_F16; }
static void apart(fovea_tensor *t) {
    for (int axis = 0; axis < 3; axis++)
        t->stride[axis] *= 2;
}
static void scales_apart(call *x) { apart(&x->pool->pages.k_scales); }
static void rows_apart(call *x) { apart(&x->pool->pages.k); }
static void odd_block(call *x) { x->pool->pages.k.data = (char *)x->pool->pages.k.data + 1; }
static void weights(call *x) { x->pool->pages.v.dtype = FOVEA_DTYPE_U4; }
static void short_page(call *x) { x->pool->pages.k.shape[2] = 100; }
static void other_heads(call *x) { x->pool->pages.v.shape[1] = 1; }
static void other_channels(call *x) { x->append.k.shape[3]--; }
static void shared_rows(call *x) { x->pool->pages.v.stride[2] = 0; }
static void overlapping(call *x) { x->append.v.data = x->pool->memory[1]; }
static void overlapping_lengths(call *x) { x->pool->pages.v.data = x->lengths; }
static void overlapping_heads(call *x) { x->pool->pages.k.stride[1] -= 8; } /* in what fills up 24 channels of 4 bits */
static void int8_tokens(call *x) { x->append.v.dtype = FOVEA_DTYPE_I8; }
static void negative(call *x) { x->lengths[1] = -1; }
static void past_table(call *x) { x->lengths[1] = LONGEST + 100; }
static void no_such_page(call *x) { x->pool->table[x->pool->each + 1] = 1000; }
static void page_before(call *x) { x->pool->table[x->pool->each + 1] = -1; }
static void sequences(call *x) { x->append.sequences = &x->number; }
static void layer(call *x) { x->append.layer = 1; }
static void newer(call *x) { x->pool->pages.struct_size += 8; }

static void test_refused(const case_contexts *x, shadow *const s[BATCH]) {
    static const struct {
        void (*spoil)(call *x);
        fovea_status due;
        const char *words;
    } cases[] = {{no_lengths, FOVEA_ERROR_NULL, "lengths is NULL"},
                 {no_table, FOVEA_ERROR_NULL, "table"},
                 {no_data, FOVEA_ERROR_NULL, "k of the pages"},
                 {no_scales, FOVEA_ERROR_NULL, "k_scales of the pages"},
                 {scales_of_floats, FOVEA_ERROR_ARGUMENT, "v_scales|FOVEA_DTYPE_F32"},
                 {other_scales, FOVEA_ERROR_DTYPE, "k_scales"},
                 {scales_apart, FOVEA_ERROR_STRIDE, "k_scales|must be 1"},
                 {rows_apart, FOVEA_ERROR_STRIDE, "k of the pages|token stride is 48|must be 24"},
                 {odd_block, FOVEA_ERROR_STRIDE, "multiple of 4"},
                 {weights, FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_U4"},
                 {short_page, FOVEA_ERROR_SHAPE, "page_keys is 100|multiple of 32"},
                 {other_heads, FOVEA_ERROR_SHAPE, "v of the pages"},
                 {other_channels, FOVEA_ERROR_SHAPE, "k: channel"},
                 {shared_rows, FOVEA_ERROR_STRIDE, "v of the pages"},
                 {overlapping, FOVEA_ERROR_ALIAS, "v of the pages"},
                 {overlapping_lengths, FOVEA_ERROR_ALIAS, "v of the pages overlaps lengths"},
                 {int8_tokens, FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I8"},
                 {negative, FOVEA_ERROR_SHAPE, "lengths[1] is -1"},
                 {past_table, FOVEA_ERROR_SHAPE, "more than 6 pages of 128 keys"},
                 {no_such_page, FOVEA_ERROR_ARGUMENT, "page 1 of sequence 1 is 1000; there are 12"},
                 {page_before, FOVEA_ERROR_ARGUMENT, "is -1"},
                 {sequences, FOVEA_ERROR_ARGUMENT, "sequences"},
                 {layer, FOVEA_ERROR_ARGUMENT, "layer"},
                 {newer, FOVEA_ERROR_VERSION, "fovea_kv_pages"},
                 {overlapping_heads, FOVEA_ERROR_STRIDE, "k of the pages|share memory"}};
    cache_case c = cache_case_make(x->one, x->scalar);
    float *k = rows_of(&c, s, false), *v = rows_of(&c, s, true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        c.k_dtype = cases[i].spoil == overlapping_heads ? FOVEA_DTYPE_I4 : FOVEA_DTYPE_I8;
        call one = {.pool = pool_make(&c, 128), .lengths = {120, 130}};
        pool_of *before = pool_make(&c, 128);
        fovea_kv_append_args_init(&one.append);
        one.append.count = BATCH;
        one.append.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, BATCH, HEADS, 9, CACHE_DIM);
        one.append.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, BATCH, HEADS, 9, CACHE_VALUES);
        cases[i].spoil(&one);
        check_status(cases[i].words,
                     fovea_kv_pages_append(x->one, &one.pool->pages, i > 0 ? one.lengths : NULL, &one.append),
                     cases[i].due, cases[i].words);
        pool_same(one.pool, before, cases[i].words);
        pool_free(one.pool);
        pool_free(before);
    }
    check_status("no context", fovea_kv_pages_append(NULL, NULL, NULL, NULL), FOVEA_ERROR_NULL, "ctx");
    check_status("no pages", fovea_kv_pages_append(x->one, NULL, NULL, NULL), FOVEA_ERROR_NULL, "pages");
    free(k);
    free(v);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_append", NULL);
    const case_contexts x = contexts_make();
    shadow *s[BATCH];
    for (int b = 0; b < BATCH; b++) {
        s[b] = must_alloc(1, sizeof *s[b]);
        for (s[b]->length = 0; s[b]->length < KEYS; s[b]->length++) {
            s[b]->token[s[b]->length] = (int32_t)(1000 * b + s[b]->length);
            s[b]->attended[s[b]->length] = 1;
        }
    }
    test_pairs(&x, s);
    test_refused(&x, s);
    for (int b = 0; b < BATCH; b++)
        free(s[b]);
    contexts_free(&x);
    return test_end();
}
