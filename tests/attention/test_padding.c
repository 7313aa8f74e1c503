/* Rows without a query, of sequences shorter than the tokens of q: out is +0, lse that of the sinks alone, weights and
 * statistics +0, and no key is in the top ones. That holds for sinks of NaN and +inf, with a state that has keys of
 * such rows from a call before, and whatever the other rows of a block are. Rows with a query that see no key have NaN
 * in out and lse by such a sink, and nothing in weights and statistics.
 *
 * Keys are in rows, in pages, and behind those of a state; blocks, tiles, splits and threads differ. */
#include "attention_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A problem in which most rows have no query: of two sequences of q_len tokens, the first has queries [1, 1 + LIVE), of
 * which the first one sees no key, the second has none. */
enum { LIVE = 3, KEYS = 300, WIDTH = 8 };
typedef enum keys_kind { KEYS_ROWS, KEYS_PAGES, KEYS_STATE, KEYS_KINDS } keys_kind;
typedef struct padded {
    fovea_dtype dtype;
    int64_t q_len;
    float sink; /* -inf: there are none */
    keys_kind kind;
    bool views, rows; /* weights; statistics of rows */
} padded;

static float element_of(const fovea_tensor *t, int64_t i) {
    return t->dtype == FOVEA_DTYPE_F32 ? ((float *)t->data)[i] : bits_float((uint32_t)((uint16_t *)t->data)[i] << 16);
}

static fovea_tensor tensor_of(fovea_dtype dtype, int64_t heads, int64_t tokens, int64_t channels) {
    const int64_t n = 2 * heads * tokens * channels;
    void *data = must_alloc(n, 8);
    memset(data, 0x3e, (size_t)n * 8); /* a number in every type */
    return fovea_tensor_bhtd(data, dtype, 2, heads, tokens, channels);
}

static void check_padded(const fovea_context *ctx, const fv_attention_choice *choice, const padded *x) {
    enum { HEADS = 3 };
    attention_case c = case_plain(2, HEADS, 1, x->q_len, KEYS, WIDTH, WIDTH);
    c.desc.dtype = c.desc.k_dtype = c.desc.v_dtype = x->dtype;
    c.desc.has_sinks = x->sink != -INFINITY;
    c.desc.causal = FOVEA_CAUSAL_OFFSET;
    c.desc.page_keys = x->kind == KEYS_PAGES ? 256 : 0;
    const int64_t starts[] = {x->q_len > LIVE, 0}, lens[] = {LIVE, 0}, offsets[] = {-1, 0}, kv_lens[] = {KEYS, KEYS},
                  first[] = {256, 256}, last[] = {44, 44};
    const int32_t table[] = {0, 1, 2, 3};
    const float sinks[HEADS] = {x->sink, 0.5f, x->sink};
    fovea_attention_summary summary;
    fovea_attention_summary_init(&summary);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = tensor_of(x->dtype, HEADS, x->q_len, WIDTH);
    args.k = tensor_of(x->dtype, 1, 4 * 256, WIDTH);
    args.v = tensor_of(x->dtype, 1, 4 * 256, WIDTH);
    args.out = tensor_of(x->dtype, HEADS, x->q_len, WIDTH);
    args.lse = tensor_of(FOVEA_DTYPE_F32, HEADS, x->q_len, 1);
    args.weights = tensor_of(FOVEA_DTYPE_F32, HEADS, x->q_len, KEYS);
    summary.entropy = tensor_of(FOVEA_DTYPE_F32, HEADS, x->q_len, 1);
    summary.max_weight = tensor_of(FOVEA_DTYPE_F32, HEADS, x->q_len, 1);
    summary.top_weights = tensor_of(FOVEA_DTYPE_F32, HEADS, x->q_len, 1);
    summary.top_keys = tensor_of(FOVEA_DTYPE_I64, HEADS, x->q_len, 1);
    fovea_kv_pages pages;
    fovea_kv_pages_init(&pages);
    void *const memory[] = {args.q.data,
                            args.k.data,
                            args.v.data,
                            args.out.data,
                            args.lse.data,
                            args.weights.data,
                            summary.entropy.data,
                            summary.max_weight.data,
                            summary.top_weights.data,
                            summary.top_keys.data};
    args.k.shape[2] = args.v.shape[2] = KEYS;
    if (x->kind == KEYS_PAGES) {
        pages.k = fovea_tensor_bhtd(args.k.data, x->dtype, 4, 1, 256, WIDTH);
        pages.v = fovea_tensor_bhtd(args.v.data, x->dtype, 4, 1, 256, WIDTH);
        pages.table = table;
        pages.table_stride = 2;
        args.pages = &pages;
        args.k.data = args.v.data = NULL;
    }
    args.sinks = c.desc.has_sinks ? sinks : NULL;
    args.q_starts = starts;
    args.q_lens = lens;
    args.kv_lens = kv_lens;
    args.q_offsets = offsets;
    if (!x->views)
        args.weights.data = NULL;
    args.summary = x->rows ? &summary : NULL;
    fovea_attention_plan *plan;
    void *state = NULL;
    check_status("plan", fv_attention_plan_create_chosen(ctx, &c.desc, choice, &plan), FOVEA_OK, NULL);
    if (x->kind == KEYS_STATE) { /* a call before has a query in each row */
        const size_t size = fovea_attention_plan_state_size(plan);
        state = must_alloc((int64_t)size, 1);
        check_status("state", fovea_attention_state_init(plan, state, size, &args.state), FOVEA_OK, NULL);
        fovea_attention_args before = args;
        before.q_starts = before.q_lens = NULL;
        before.kv_lens = first;
        check_status("piece", fovea_attention_execute(plan, &before, NULL, 0), FOVEA_OK, NULL);
        args.first_key = 256;
        args.kv_lens = last;
    }
    check_status("execute", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    const float empty = c.desc.has_sinks ? 0.5f : -INFINITY; /* lse of head 1 */
    int64_t wrong = 0;
    for (int64_t i = 0; i < 2 * HEADS * x->q_len; i++) {
        const int64_t query = i % x->q_len - starts[0], head = i / x->q_len % HEADS;
        const bool live = i < HEADS * x->q_len && query >= 0 && query < LIVE, odd = head != 1 && c.desc.has_sinks;
        const bool keys = live && (x->kind == KEYS_STATE ? i % x->q_len : query) > 0;
        const uint32_t stat = odd && keys ? CANONICAL_NAN : 0;
        for (int64_t n = 0; n < WIDTH; n++) {
            const float out = element_of(&args.out, i * WIDTH + n);
            wrong += live && odd ? !float_is_nan(out) : keys ? out == 0 : float_bits(out) != 0;
        }
        const float lse = element_of(&args.lse, i);
        wrong += odd ? float_bits(lse) != CANONICAL_NAN : keys ? lse <= empty : lse != empty;
        for (int64_t j = 0; x->views && j < KEYS && !keys; j++)
            wrong += float_bits(element_of(&args.weights, i * KEYS + j)) != 0;
        if (!x->rows || (keys && !odd))
            continue;
        wrong += float_bits(element_of(&summary.entropy, i)) != stat;
        wrong += float_bits(element_of(&summary.max_weight, i)) != stat;
        wrong += float_bits(element_of(&summary.top_weights, i)) != stat;
        wrong += ((int64_t *)summary.top_keys.data)[i] != (keys ? 0 : -1);
    }
    test_check(wrong == 0,
               "sink %g, %" PRId64 " tokens, type %d, keys %d, weights %d, statistics %d: %" PRId64 " wrong",
               (double)x->sink, x->q_len, (int)x->dtype, (int)x->kind, x->views, x->rows, wrong);
    fovea_attention_plan_destroy(plan);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
    free(state);
}

static void test_padded(const case_contexts *contexts) {
    static const float sinks[] = {INFINITY, NAN, -INFINITY};
    static const int64_t q_lens[] = {LIVE, 5, 115};
    rng r = rng_stream(test_seed(), "padded");
    for (int i = 0; i < 2 * 3 * 3 * KEYS_KINDS * 3; i++) {
        const padded x = {.dtype = i % 2 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32,
                          .q_len = q_lens[i / 2 % 3],
                          .sink = sinks[i / 6 % 3],
                          .kind = (keys_kind)(i / 18 % KEYS_KINDS),
                          .views = i / 54 == 1 && i / 18 % KEYS_KINDS != KEYS_STATE,
                          .rows = i / 54 == 2 && i / 18 % KEYS_KINDS != KEYS_STATE};
        const fv_attention_choice defaults = {0};
        check_padded(contexts->one, &defaults, &x);
        check_padded(contexts->three, &defaults, &x);
        for (int n = 0; n < 4; n++) {
            const fv_attention_choice choice = choice_random(&r);
            check_padded(n % 2 ? contexts->many : contexts->one, &choice, &x);
        }
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "padding", NULL);
    const case_contexts contexts = contexts_make();
    test_padded(&contexts);
    contexts_free(&contexts);
    return test_end();
}
