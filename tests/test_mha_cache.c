/* Layers over a cache: one whose tokens come one by one, in chunks and at once, padded and packed, gives the bits of its steps called one by
 * one (linear maps, norms of queries and keys, rope, attention over contiguous tensors), for float32 and 16-bit types and caches, and int8 ones; and
 * what such layers must refuse. */
#include "cache_case.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 290, FEATURES = 48, HEADS = 4, KV_HEADS = 2, DIM = 16, OUT = 40 };

/* One layer: weights of out x in, and norms. */
typedef struct layer {
    const fovea_context *ctx;
    fovea_dtype dtype, kept; /* of inputs and steps; of the cache */
    bool norms, fused;
    const fovea_rope *rope;
    float q[HEADS * DIM * FEATURES], k[KV_HEADS * DIM * FEATURES], v[KV_HEADS * DIM * FEATURES], o[OUT * HEADS * DIM];
    float all[(HEADS + 2 * KV_HEADS) * DIM * FEATURES]; /* q, k, v below each other */
    float q_norm[DIM], k_norm[DIM], o_bias[OUT];
    float x[TOKENS * FEATURES];
} layer;

static layer *layer_make(const fovea_context *ctx) {
    layer *l = must_alloc(1, sizeof *l);
    rng r = rng_stream(test_seed(), "layer");
    *l = (layer){.ctx = ctx, .dtype = FOVEA_DTYPE_F32, .kept = FOVEA_DTYPE_F32, .norms = true};
    rng_fill_normal(&r, l->q, HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->k, KV_HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->v, KV_HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->o, OUT * HEADS * DIM);
    memcpy(l->all, l->q, sizeof l->q);
    memcpy(l->all + HEADS * DIM * FEATURES, l->k, sizeof l->k);
    memcpy(l->all + (HEADS + KV_HEADS) * DIM * FEATURES, l->v, sizeof l->v);
    rng_fill_normal(&r, l->q_norm, DIM);
    rng_fill_normal(&r, l->k_norm, DIM);
    rng_fill_normal(&r, l->o_bias, OUT);
    rng_fill_normal(&r, l->x, TOKENS * FEATURES);
    return l;
}

static void require(fovea_status status, const char *what) {
    if (!test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail()))
        abort();
}

static void *typed(const float *x, int64_t n, fovea_dtype dtype) {
    void *y = must_alloc(n, sizeof(float));
    require(fovea_convert(n, x, FOVEA_DTYPE_F32, y, dtype), "convert");
    return y;
}

static fovea_attention_desc attention_of(const layer *l, int64_t batch, int64_t q_len, bool cached) {
    fovea_attention_desc a;
    fovea_attention_desc_init(&a);
    a.dtype = a.out_dtype = l->dtype;
    a.k_dtype = a.v_dtype = l->kept;
    a.batch = batch;
    a.q_heads = HEADS;
    a.kv_heads = KV_HEADS;
    a.q_len = q_len;
    a.kv_len = TOKENS;
    a.head_dim = a.value_dim = DIM;
    a.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    a.page_keys = cached ? FOVEA_KV_PAGE_KEYS : 0;
    return a;
}

static fovea_status create(const layer *l, const fovea_attention_desc *a, fovea_mha_desc *d, fovea_mha **mha) {
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    d->attention = a;
    d->q_features = FEATURES;
    d->out_features = OUT;
    d->biases = 1;
    w.q = fovea_matrix_out_in(l->q, FOVEA_DTYPE_F32, HEADS * DIM, FEATURES);
    w.k = fovea_matrix_out_in(l->k, FOVEA_DTYPE_F32, KV_HEADS * DIM, FEATURES);
    w.v = fovea_matrix_out_in(l->v, FOVEA_DTYPE_F32, KV_HEADS * DIM, FEATURES);
    w.o = fovea_matrix_out_in(l->o, FOVEA_DTYPE_F32, OUT, HEADS * DIM);
    if (l->fused) {
        d->form = FOVEA_MHA_FUSED;
        w.fused = fovea_matrix_out_in(l->all, FOVEA_DTYPE_F32, (HEADS + 2 * KV_HEADS) * DIM, FEATURES);
        w.q.data = w.k.data = w.v.data = NULL;
    }
    w.o_bias = l->o_bias;
    w.q_norm = l->norms ? l->q_norm : NULL;
    w.k_norm = l->norms ? l->k_norm : NULL;
    return fovea_mha_create(l->ctx, d, &w, mha);
}

/* y = x w^T + bias, [groups of channels] as heads. */
static void *map(const layer *l, const void *x, const float *w, int64_t in, int64_t heads, int64_t channels,
                 const float *bias) {
    fovea_linear_part part = {.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, heads * channels, in), .bias = bias};
    fovea_linear_desc d;
    fovea_linear_args args;
    fovea_linear *linear;
    part.bias_dtype = FOVEA_DTYPE_F32;
    fovea_linear_desc_init(&d);
    d.dtype = l->dtype;
    d.in_features = in;
    d.parts = &part;
    require(fovea_linear_pack(l->ctx, &d, &linear), "pack");
    void *y = must_alloc(TOKENS * heads * channels, sizeof(float));
    fovea_tensor out = fovea_tensor_bhtd(y, l->dtype, 1, heads, TOKENS, channels);
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd((void *)(uintptr_t)x, l->dtype, 1, 1, TOKENS, in);
    args.y = &out;
    require(fovea_linear_execute(linear, &args, NULL, 0), "map");
    fovea_linear_destroy(linear);
    return y;
}

static void normalise(const layer *l, void *x, int64_t heads, const float *weight) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = args.y = fovea_tensor_bhtd(x, l->dtype, 1, heads, TOKENS, DIM);
    args.weight = weight;
    args.eps = 1e-6;
    require(fovea_rms_norm(l->ctx, &args), "norm");
}

static fovea_kv_cache *cache_of(const layer *l) {
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.layers = 2;
    d.kv_heads = KV_HEADS;
    d.head_dim = d.value_dim = DIM;
    d.k_dtype = d.v_dtype = l->kept;
    d.max_pages = 16;
    d.rope = l->rope;
    require(fovea_kv_cache_create(l->ctx, &d, &cache), "cache");
    return cache;
}

/* Attention of all tokens at once over a cache, as int8 keys and values have no tensors; q is turned, k is not. */
static void attend_cached(const layer *l, const fovea_tensor *q, const fovea_tensor *k, const fovea_tensor *v,
                          const fovea_tensor *out) {
    const fovea_attention_desc a = attention_of(l, 1, TOKENS, true);
    fovea_kv_cache *cache = cache_of(l);
    fovea_kv_append append;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    int64_t sequence;
    require(fovea_kv_cache_add(cache, &sequence), "add");
    fovea_kv_append_init(&append);
    append.count = 1;
    append.sequences = &sequence;
    append.k = *k;
    append.v = *v;
    require(fovea_kv_cache_append(cache, &append), "append");
    require(fovea_attention_plan_create(l->ctx, &a, &plan), "plan");
    fovea_attention_args_init(&args);
    args.q = *q;
    args.out = *out;
    args.cache = cache;
    args.cache_sequences = &sequence;
    require(fovea_attention_execute(plan, &args, NULL, 0), "attention");
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(cache);
}

static void attend_contiguous(const layer *l, const fovea_tensor *q, const fovea_tensor *k, const fovea_tensor *v,
                              const int64_t *positions, const fovea_tensor *out) {
    const int64_t n = KV_HEADS * TOKENS * DIM;
    const fovea_attention_desc a = attention_of(l, 1, TOKENS, false);
    fovea_attention_plan *plan;
    fovea_attention_args args;
    void *kept_k = must_alloc(n, sizeof(float)), *kept_v = must_alloc(n, sizeof(float));
    fovea_attention_args_init(&args);
    args.q = *q;
    args.k = fovea_tensor_bhtd(kept_k, l->kept, 1, KV_HEADS, TOKENS, DIM);
    args.v = fovea_tensor_bhtd(kept_v, l->kept, 1, KV_HEADS, TOKENS, DIM);
    args.out = *out;
    if (l->rope)
        require(fovea_rope_apply(l->ctx, l->rope, k, positions, &args.k), "rope");
    else
        require(fovea_convert(n, k->data, l->dtype, kept_k, l->kept), "convert");
    require(fovea_convert(n, v->data, l->dtype, kept_v, l->kept), "convert");
    require(fovea_attention_plan_create(l->ctx, &a, &plan), "plan");
    require(fovea_attention_execute(plan, &args, NULL, 0), "attention");
    fovea_attention_plan_destroy(plan);
    free(kept_k);
    free(kept_v);
}

/* The steps one by one, over all tokens: [TOKENS][OUT]. */
static void *reference(const layer *l) {
    int64_t positions[TOKENS];
    for (int64_t i = 0; i < TOKENS; i++)
        positions[i] = i;
    void *x = typed(l->x, TOKENS * FEATURES, l->dtype);
    void *q = map(l, x, l->q, FEATURES, HEADS, DIM, NULL), *k = map(l, x, l->k, FEATURES, KV_HEADS, DIM, NULL),
         *v = map(l, x, l->v, FEATURES, KV_HEADS, DIM, NULL);
    if (l->norms) {
        normalise(l, q, HEADS, l->q_norm);
        normalise(l, k, KV_HEADS, l->k_norm);
    }
    void *heads = must_alloc(TOKENS * HEADS * DIM, sizeof(float));
    const fovea_tensor qt = fovea_tensor_bhtd(q, l->dtype, 1, HEADS, TOKENS, DIM),
                       kt = fovea_tensor_bhtd(k, l->dtype, 1, KV_HEADS, TOKENS, DIM),
                       vt = fovea_tensor_bhtd(v, l->dtype, 1, KV_HEADS, TOKENS, DIM),
                       ht = fovea_tensor_bthd(heads, l->dtype, 1, TOKENS, HEADS, DIM);
    if (l->rope)
        require(fovea_rope_apply(l->ctx, l->rope, &qt, positions, &qt), "rope");
    if (l->kept == FOVEA_DTYPE_I8)
        attend_cached(l, &qt, &kt, &vt, &ht);
    else
        attend_contiguous(l, &qt, &kt, &vt, positions, &ht);
    void *out = map(l, heads, l->o, HEADS * DIM, 1, OUT, l->o_bias);
    void *all[] = {x, q, k, v, heads};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return out;
}

/* Two sequences that get the same tokens in chunks, the second ones shorter ones: padded, or packed. */
static void check_chunks(const layer *l, const char *want, int64_t chunk, bool packed) {
    fovea_attention_desc a = attention_of(l, 2, chunk, true);
    fovea_mha_desc d;
    fovea_mha *mha;
    int64_t sequences[2], at[2] = {0, 0};
    const int64_t size = l->dtype == FOVEA_DTYPE_F32 ? 4 : 2;
    fovea_kv_cache *cache = cache_of(l);
    fovea_mha_desc_init(&d);
    a.packed = packed;
    require(create(l, &a, &d, &mha), "layer");
    for (int i = 0; i < 2; i++)
        require(fovea_kv_cache_add(cache, &sequences[i]), "add");
    char *all = typed(l->x, TOKENS * FEATURES, l->dtype), *x = must_alloc(2 * chunk * FEATURES, (size_t)size),
         *out = must_alloc(2 * chunk * OUT, (size_t)size);
    while (at[0] < TOKENS || at[1] < TOKENS) {
        int64_t lens[2], ends[3] = {0};
        memset(x, 0xff, (size_t)(2 * chunk * FEATURES * size)); /* padding: NaN */
        for (int i = 0; i < 2; i++) {
            const int64_t most = i == 0 || chunk < 3 ? chunk : chunk - 2;
            lens[i] = most < TOKENS - at[i] ? most : TOKENS - at[i];
            ends[i + 1] = ends[i] + lens[i];
            memcpy(x + (packed ? ends[i] : i * chunk) * FEATURES * size, all + at[i] * FEATURES * size,
                   (size_t)(lens[i] * FEATURES * size));
        }
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = packed ? fovea_tensor_bhtd(x, l->dtype, 1, 1, ends[2], FEATURES)
                        : fovea_tensor_bhtd(x, l->dtype, 2, 1, chunk, FEATURES);
        args.out = packed ? fovea_tensor_bhtd(out, l->dtype, 1, 1, ends[2], OUT)
                          : fovea_tensor_bhtd(out, l->dtype, 2, 1, chunk, OUT);
        args.q_lens = packed ? NULL : lens;
        args.q_cu_seqlens = packed ? ends : NULL;
        args.cache = cache;
        args.cache_layer = 1;
        args.cache_sequences = sequences;
        require(fovea_mha_execute(mha, &args, NULL, 0), "execute");
        for (int i = 0; i < 2; i++) {
            test_check(memcmp(out + (packed ? ends[i] : i * chunk) * OUT * size, want + at[i] * OUT * size,
                              (size_t)(lens[i] * OUT * size)) == 0,
                       "chunks of %d%s, types %d and %d: tokens from %d on differ", (int)chunk,
                       packed ? ", packed" : "", (int)l->dtype, (int)l->kept, (int)at[i]);
            at[i] += lens[i];
        }
    }
    free(all);
    free(x);
    free(out);
    fovea_mha_destroy(mha);
    fovea_kv_cache_destroy(cache);
}

static void check_layer(const layer *l) {
    static const int64_t chunks[] = {1, 7, TOKENS};
    char *want = reference(l);
    for (int i = 0; i < 3; i++)
        for (int packed = 0; packed < 2; packed++)
            check_chunks(l, want, chunks[i], packed);
    free(want);
}

static void check_due(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s (%s)", what, fovea_status_name(got), fovea_status_name(due),
               fovea_error_detail());
}

static void test_refused(layer *l) {
    fovea_attention_desc a = attention_of(l, 1, 4, true);
    fovea_mha_desc d;
    fovea_mha *mha;
    fovea_mha_desc_init(&d);
    d.inputs = FOVEA_MHA_CROSS;
    check_due("two inputs", create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    d.form = FOVEA_MHA_TIED;
    check_due("tied", create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    a.page_keys = 128;
    check_due("other pages", create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    a.page_keys = FOVEA_KV_PAGE_KEYS;
    d.norm_eps = -1.0;
    check_due("eps", create(l, &a, &d, &mha), FOVEA_ERROR_ARGUMENT);
    fovea_mha_desc_init(&d);
    d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    check_due("folded values", create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    a.kv_len = 9;
    require(create(l, &a, &d, &mha), "layer");

    fovea_kv_cache *cache = cache_of(l);
    int64_t sequence, length;
    float x[4 * FEATURES] = {1.0f}, out[4 * OUT], kept[4 * OUT];
    const int64_t lens[1] = {4}, starts[1] = {0};
    poison_fill(out, 4 * OUT);
    memcpy(kept, out, sizeof out);
    require(fovea_kv_cache_add(cache, &sequence), "add");
    for (int i = 0; i < 8; i++) {
        static const struct {
            const char *what;
            fovea_status due;
        } cases[] = {{"kv_lens", FOVEA_ERROR_ARGUMENT},  {"q_starts", FOVEA_ERROR_ARGUMENT},
                     {"no cache", FOVEA_ERROR_NULL},     {"layer", FOVEA_ERROR_ARGUMENT},
                     {"sequence", FOVEA_ERROR_ARGUMENT}, {"good", FOVEA_OK},
                     {"good again", FOVEA_OK},           {"longer than kv_len", FOVEA_ERROR_SHAPE}};
        const int64_t wrong = sequence + 1;
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 4, FEATURES);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 4, OUT);
        args.kv_lens = i == 0 ? lens : NULL;
        args.q_starts = i == 1 ? starts : NULL;
        args.cache = i == 2 ? NULL : cache;
        args.cache_layer = i == 3 ? 2 : 0;
        args.cache_sequences = i == 4 ? &wrong : &sequence;
        check_due(cases[i].what, fovea_mha_execute(mha, &args, NULL, 0), cases[i].due);
        require(fovea_kv_cache_length(cache, 0, sequence, &length), "length");
        test_check(length == (i < 5 ? 0 : i == 5 ? 4 : 8), "%s: %d tokens", cases[i].what, (int)length);
        test_check((memcmp(out, kept, sizeof out) == 0) == (cases[i].due != FOVEA_OK), "%s: outputs", cases[i].what);
        memcpy(kept, out, sizeof out);
        if (i == 5 || i == 6)
            poison_fill(out, 4 * OUT), memcpy(kept, out, sizeof out);
    }
    fovea_mha *other;
    require(fovea_mha_reshape(mha, 1, 1, 300, &other), "reshape");
    fovea_mha_destroy(other);
    fovea_mha_destroy(mha);
    fovea_kv_cache_destroy(cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha-cache", NULL);
    const case_contexts x = contexts_make();
    layer *l = layer_make(x.one);
    fovea_rope_desc d;
    fovea_rope *rope;
    fovea_rope_desc_init(&d);
    d.rotary_dim = DIM;
    require(fovea_rope_create(&d, &rope), "rope");
    check_layer(l);
    l->rope = rope;
    l->ctx = x.three;
    l->fused = true;
    check_layer(l);
    l->kept = FOVEA_DTYPE_BF16; /* a smaller cache */
    check_layer(l);
    l->dtype = l->kept = FOVEA_DTYPE_BF16;
    check_layer(l);
    l->kept = FOVEA_DTYPE_I8; /* the smallest */
    check_layer(l);
    l->dtype = l->kept = FOVEA_DTYPE_F16;
    l->norms = l->fused = false;
    l->ctx = x.one;
    check_layer(l);
    l->dtype = l->kept = FOVEA_DTYPE_F32;
    test_refused(l);
    fovea_rope_destroy(rope);
    free(l);
    contexts_free(&x);
    return test_end();
}
