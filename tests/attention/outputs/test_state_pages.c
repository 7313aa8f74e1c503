/* States over pages of a cache (fovea/state.h): a sequence's segments, each a sequence of its own, piece by piece or as
 * partial results that are merged, have the bits of the whole sequence; with evicted keys, two sequences that share
 * pages, a window, all types of keys. What fails leaves the state as it was. */
#include "cache_case.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 700, ROWS = 3, PIECES = 3, BATCH = 2, HALF = CACHE_Q_HEADS * ROWS };

typedef struct pieces {
    const cache_case *c;
    fovea_kv_cache *cache;
    shadow *whole, *piece[PIECES];
    float q[BATCH * HALF * CACHE_DIM], out[BATCH * HALF * CACHE_VALUES];
} pieces;

static fovea_attention_plan *plan_of(const pieces *x) {
    fovea_attention_plan *plan;
    fovea_attention_desc d = cache_desc(x->c, 0, BATCH, ROWS, TOKENS); /* longer than any piece */
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    d.causal = FOVEA_CAUSAL_OFFSET;
    if (!test_check(fovea_attention_plan_create(x->c->ctx, &d, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail()))
        abort();
    return plan;
}

static fovea_attention_state *new_state(const fovea_attention_plan *plan) {
    fovea_attention_state *state;
    const size_t size = fovea_attention_plan_state_size(plan);
    void *memory = must_alloc((int64_t)size, 1);
    test_check(fovea_attention_state_init(plan, memory, size, &state) == FOVEA_OK, "state: %s", fovea_error_detail());
    return state;
}

static fovea_status take(pieces *x, const fovea_attention_plan *plan, int64_t index, int64_t number,
                         fovea_attention_state *state, bool finish) {
    static const int64_t none[BATCH];
    const int64_t both[BATCH] = {number, number}, offsets[BATCH] = {TOKENS - ROWS, TOKENS - ROWS};
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(x->q, x->c->q_dtype, BATCH, CACHE_Q_HEADS, ROWS, CACHE_DIM);
    args.cache = x->cache;
    args.cache_sequences = both;
    args.q_offsets = offsets;
    args.state = state;
    args.first_key = index * FOVEA_KV_PAGE_KEYS;
    args.kv_lens = finish ? none : NULL;
    if (finish)
        args.out = fovea_tensor_bhtd(x->out, FOVEA_DTYPE_F32, BATCH, CACHE_Q_HEADS, ROWS, CACHE_VALUES);
    return fovea_attention_execute(plan, &args, NULL, 0);
}

static void check_bits(pieces *x, const fovea_attention_plan *plan, fovea_attention_state *state, const char *how) {
    float want[HALF * CACHE_VALUES];
    cache_want(x->c, x->whole, 0, ROWS, want);
    test_check(take(x, plan, 0, x->piece[0]->number, state, true) == FOVEA_OK, "%s: %s", how, fovea_error_detail());
    for (int b = 0; b < BATCH; b++)
        test_check(memcmp(x->out + b * HALF * CACHE_VALUES, want, sizeof want) == 0,
                   "%s: other bits, types %d and %d, window %d", how, (int)x->c->k_dtype, (int)x->c->v_dtype,
                   (int)x->c->windows[0]);
}

static void test_pieces(const cache_case *c, bool evict) {
    static pieces x;
    x.c = c;
    x.cache = cache_make(c);
    x.whole = cache_add(x.cache);
    for (int64_t i = 0, tokens; i < PIECES; i++) {
        tokens = i + 1 < PIECES ? FOVEA_KV_PAGE_KEYS : TOKENS - i * FOVEA_KV_PAGE_KEYS;
        x.piece[i] = cache_add(x.cache);
        cache_append(x.cache, &x.piece[i], 1, &tokens, (int32_t)(i * FOVEA_KV_PAGE_KEYS + 1));
        for (int64_t t = 0; t < tokens; t++) {
            x.whole->token[x.whole->length] = x.piece[i]->token[t];
            x.whole->attended[x.whole->length++] = 1;
        }
    }
    if (evict) {
        for (int64_t t = 200; t < FOVEA_KV_PAGE_KEYS; t++)
            x.whole->attended[t] = 0;
        test_check(fovea_kv_cache_evict(x.cache, x.piece[0]->number, 200, FOVEA_KV_PAGE_KEYS) == FOVEA_OK, "evict");
    }
    for (int b = 0; b < BATCH; b++)
        cache_queries(x.whole, 0, ROWS, x.q + b * HALF * CACHE_DIM);
    fovea_attention_plan *plan = plan_of(&x);
    fovea_attention_state *running = new_state(plan), *part[PIECES];
    const size_t size = fovea_attention_plan_state_size(plan);
    void *kept = must_alloc((int64_t)size, 1);
    for (int64_t i = 0; i < PIECES; i++) {
        part[i] = new_state(plan);
        test_check(take(&x, plan, i, x.piece[i]->number, part[i], false) == FOVEA_OK &&
                       take(&x, plan, i, x.piece[i]->number, running, false) == FOVEA_OK,
                   "piece: %s", fovea_error_detail());
        memcpy(kept, running, size);
        test_check(take(&x, plan, i, x.piece[i]->number, running, false) == FOVEA_ERROR_ARGUMENT, "a piece twice");
        test_check(take(&x, plan, i + 1, 99, running, false) == FOVEA_ERROR_ARGUMENT, "no sequence");
        test_check(memcmp(kept, running, size) == 0, "a state after an error");
    }
    check_bits(&x, plan, running, "piece by piece");
    for (int64_t i = 1; i < PIECES; i++)
        test_check(fovea_attention_state_merge(part[0], part[i]) == FOVEA_OK, "merge: %s", fovea_error_detail());
    check_bits(&x, plan, part[0], "partial results");
    for (int64_t i = 0; i < PIECES; i++) {
        free(part[i]);
        free(x.piece[i]);
    }
    free(running);
    free(kept);
    free(x.whole);
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(x.cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "state_pages", NULL);
    const case_contexts contexts = contexts_make();
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8,
                                        FOVEA_DTYPE_I4};
    for (int i = 0; i < 25; i++) {
        cache_case c = cache_case_make(contexts.three, contexts.scalar);
        c.k_dtype = types[i % 5];
        c.v_dtype = types[i / 5];
        test_pieces(&c, i % 3 == 1);
        c.windows[0] = c.windows[1] = 500;
        test_pieces(&c, i % 3 == 2);
    }
    contexts_free(&contexts);
    return test_end();
}
