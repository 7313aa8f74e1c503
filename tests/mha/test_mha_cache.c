/* Layers over a cache: one whose tokens come one by one, in chunks and at once, padded and packed, gives the bits of
 * its steps called one by one (linear maps, norms of queries and keys, rope, attention over contiguous tensors), for
 * float32 and 16-bit types and caches, and int8 ones, with what happens to scores; and what such layers must refuse. */
#include "cached_layer.h"

#include <stdlib.h>
#include <string.h>

/* In a packed call scores after softmax are args.weights, and their sums over a sequence's queries its key_sums. */
static void check_look(const float *weights, const float *scores, const float *key_sums, const int64_t ends[3],
                       int64_t keys) {
    test_same(scores, weights, HEADS * ends[2] * keys, "scores of packed tokens");
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t j = 0; j < keys; j++) {
                float sum = 0.0f;
                for (int64_t i = ends[b]; i < ends[b + 1]; i++)
                    sum += weights[(h * ends[2] + i) * keys + j];
                if (key_sums[(b * HEADS + h) * keys + j] != sum) {
                    test_check(false, "key_sums of sequence %d, head %d, key %d", (int)b, (int)h, (int)j);
                    return;
                }
            }
}

/* Two sequences that get the same tokens in chunks, the second ones shorter ones: padded, or packed. */
static void check_chunks(const cached_layer *l, const char *want, int64_t chunk, bool packed) {
    fovea_attention_desc a = cached_layer_attention(l, 2, chunk, true);
    fovea_mha_desc d;
    fovea_mha *mha;
    int64_t sequences[2], at[2] = {0, 0};
    const int64_t size = l->dtype == FOVEA_DTYPE_F32 ? 4 : 2;
    fovea_kv_cache *cache = cached_layer_cache(l);
    fovea_mha_desc_init(&d);
    a.packed = packed;
    require(cached_layer_create(l, &a, &d, &mha), "layer");
    for (int i = 0; i < 2; i++)
        require(fovea_kv_cache_add(cache, &sequences[i]), "add");
    char *all = cached_layer_typed(l->x, TOKENS * FEATURES, l->dtype),
         *x = must_alloc(2 * chunk * FEATURES, (size_t)size), *out = must_alloc(2 * chunk * OUT, (size_t)size);
    const int64_t looked = packed && chunk == 7 ? 2 * chunk * HEADS * TOKENS : 0; /* weights twice, as either output */
    float *weights = must_alloc(looked + 1, sizeof *weights), *scores = must_alloc(looked + 1, sizeof *scores);
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
        cached_layer_feature(l, &a, &args);
        float lse[2 * 7 * HEADS], key_sums[2 * HEADS * TOKENS];
        fovea_attention_scores view;
        fovea_attention_summary summary;
        fovea_attention_scores_init(&view);
        fovea_attention_summary_init(&summary);
        if (looked) {
            args.lse = fovea_tensor_bhtd(lse, FOVEA_DTYPE_F32, 1, HEADS, ends[2], 1);
            args.weights = fovea_tensor_bhtd(weights, FOVEA_DTYPE_F32, 1, HEADS, ends[2], a.kv_len);
            view.kind = FOVEA_SCORES_WEIGHTS;
            view.out = args.weights;
            view.out.data = scores;
            summary.key_sums = fovea_tensor_bhtd(key_sums, FOVEA_DTYPE_F32, 2, HEADS, 1, a.kv_len);
            args.scores = &view;
            args.summary = &summary;
        }
        require(fovea_mha_execute(mha, &args, NULL, 0), "execute");
        if (looked)
            check_look(weights, scores, key_sums, ends, a.kv_len);
        for (int i = 0; i < 2; i++) {
            test_check(memcmp(out + (packed ? ends[i] : i * chunk) * OUT * size, want + at[i] * OUT * size,
                              (size_t)(lens[i] * OUT * size)) == 0,
                       "chunks of %d%s, types %d and %d: tokens from %d on differ", (int)chunk,
                       packed ? ", packed" : "", (int)l->dtype, (int)l->kept, (int)at[i]);
            at[i] += lens[i];
        }
    }
    free(weights);
    free(scores);
    free(all);
    free(x);
    free(out);
    fovea_mha_destroy(mha);
    fovea_kv_cache_destroy(cache);
}

static void check_layer(const cached_layer *l) {
    static const int64_t chunks[] = {1, 7, TOKENS};
    char *want = cached_layer_want(l);
    for (int i = 0; i < 3; i++)
        for (int packed = 0; packed < 2; packed++)
            check_chunks(l, want, chunks[i], packed);
    free(want);
}

/* Steps on scores, one after another; an operand that lacks is found before a token is appended. */
static void test_features(cached_layer *l) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8, FOVEA_DTYPE_I4};
    for (int i = 0; i < CASE_FEATURES; i++) {
        attention_case c = case_plain(1, 1, 1, 1, 1, 1, 1);
        case_feature(&c, i);
        if (c.desc.relative == FOVEA_RELATIVE_WINDOW_2D || (c.desc.mask && c.say_mask != FOVEA_MASK_KEY_PADDING))
            continue; /* of images; with a row for each query */
        l->feature = i;
        l->kept = types[i % 4];
        char *want = cached_layer_want(l);
        check_chunks(l, want, i % 2 ? 7 : 60, i % 4 > 1);
        free(want);
        fovea_attention_desc a = cached_layer_attention(l, 1, 4, true);
        fovea_mha_desc d;
        fovea_mha *mha;
        fovea_kv_cache *cache = cached_layer_cache(l);
        int64_t sequence, length;
        float x[4 * FEATURES] = {1.0f}, out[4 * OUT];
        fovea_mha_desc_init(&d);
        require(cached_layer_create(l, &a, &d, &mha), "layer");
        require(fovea_kv_cache_add(cache, &sequence), "add");
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 4, FEATURES);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 4, OUT);
        args.cache = cache;
        args.cache_sequences = &sequence;
        const bool lacks = a.has_sinks || a.has_bias || a.relative || a.mask;
        test_check(fovea_mha_execute(mha, &args, NULL, 0) == (lacks ? FOVEA_ERROR_NULL : FOVEA_OK), "feature %d: %s", i,
                   fovea_error_detail());
        require(fovea_kv_cache_length(cache, 0, sequence, &length), "length");
        test_check(length == (lacks ? 0 : 4), "feature %d: %d tokens", i, (int)length);
        fovea_mha_destroy(mha);
        fovea_kv_cache_destroy(cache);
    }
    l->feature = -1;
}

static void check_due(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s (%s)", what, fovea_status_name(got), fovea_status_name(due),
               fovea_error_detail());
}

static void test_refused(cached_layer *l) {
    fovea_attention_desc a = cached_layer_attention(l, 1, 4, true);
    fovea_mha_desc d;
    fovea_mha *mha;
    fovea_mha_desc_init(&d);
    d.inputs = FOVEA_MHA_CROSS;
    check_due("two inputs", cached_layer_create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    d.form = FOVEA_MHA_TIED;
    check_due("tied", cached_layer_create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    a.page_keys = 128;
    check_due("other pages", cached_layer_create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    a.page_keys = FOVEA_KV_PAGE_KEYS;
    d.norm_eps = -1.0;
    check_due("eps", cached_layer_create(l, &a, &d, &mha), FOVEA_ERROR_ARGUMENT);
    fovea_mha_desc_init(&d);
    d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    check_due("folded values", cached_layer_create(l, &a, &d, &mha), FOVEA_ERROR_UNSUPPORTED);
    fovea_mha_desc_init(&d);
    a.kv_len = 9;
    require(cached_layer_create(l, &a, &d, &mha), "layer");

    fovea_kv_cache *cache = cached_layer_cache(l);
    int64_t sequence, length;
    float x[4 * FEATURES] = {1.0f}, out[4 * OUT], kept[4 * OUT], seen[HEADS * 4 * 9];
    const int64_t lens[1] = {4}, starts[1] = {0};
    fovea_attention_scores scores;
    fovea_attention_scores_init(&scores);
    scores.out = fovea_tensor_bhtd(seen, FOVEA_DTYPE_F32, 1, HEADS, 4, 9);
    poison_fill(out, 4 * OUT);
    memcpy(kept, out, sizeof out);
    require(fovea_kv_cache_add(cache, &sequence), "add");
    for (int i = 0; i < 9; i++) {
        static const struct {
            const char *what;
            fovea_status due;
        } cases[] = {{"kv_lens", FOVEA_ERROR_ARGUMENT},
                     {"q_starts", FOVEA_ERROR_ARGUMENT},
                     {"no cache", FOVEA_ERROR_NULL},
                     {"layer", FOVEA_ERROR_ARGUMENT},
                     {"sequence", FOVEA_ERROR_ARGUMENT},
                     {"good", FOVEA_OK},
                     {"good again", FOVEA_OK},
                     {"longer than kv_len", FOVEA_ERROR_SHAPE},
                     {"scores of evicted keys", FOVEA_ERROR_UNSUPPORTED}};
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
        if (i == 8) { /* found when tokens, here none, are appended: these are taken back */
            args.cache_layer = 1;
            require(fovea_mha_execute(mha, &args, NULL, 0), "the other layer");
            require(fovea_kv_cache_evict(cache, sequence, 0, 1), "evict");
            memcpy(kept, out, sizeof out);
            args.cache_layer = 0;
            args.q_lens = starts;
            args.scores = &scores;
        }
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
    test_begin(argc, argv, "mha_cache", NULL);
    const case_contexts x = contexts_make();
    cached_layer *l = cached_layer_make(x.one);
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
    l->dtype = FOVEA_DTYPE_F32;
    test_features(l);
    l->kept = FOVEA_DTYPE_F32;
    test_refused(l);
    fovea_rope_destroy(rope);
    free(l);
    contexts_free(&x);
    return test_end();
}
