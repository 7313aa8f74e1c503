/* Attention over pages, a cache's or a caller's: bad calls are refused, and nothing is written. */
#include "cache_case.h"
#include "refusals.h"

#include <stdlib.h>
#include <string.h>

static void check_due(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s", what, fovea_status_name(got), fovea_status_name(due));
}

/* A call over a cache with one sequence of 10 tokens, which is right; and what may be put in place of it. */
typedef struct call {
    const cache_case *c;
    fovea_kv_cache *cache;
    int64_t sequence, none, ten, eleven, ends[2];
    float q[CACHE_Q_HEADS * CACHE_VALUES], out[CACHE_Q_HEADS * CACHE_VALUES];
    uint8_t mask[600];
    int32_t table[1];
    fovea_kv_pages pages; /* none, of heads and channels that fit */
    fovea_attention_state *state;
    fovea_attention_desc desc;
    fovea_attention_args args;
} call;

static void make_good(call *x) {
    x->desc = cache_desc(x->c, 0, 1, 1, 600);
    x->desc.page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_attention_args_init(&x->args);
    x->args.q = fovea_tensor_bhtd(x->q, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, CACHE_DIM);
    x->args.out = fovea_tensor_bhtd(x->out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, CACHE_VALUES);
    x->args.cache = x->cache;
    x->args.cache_sequences = &x->sequence;
}

static void check_call(void *spoiled, fovea_status due, const char *words) {
    call *x = spoiled;
    float kept[CACHE_Q_HEADS * CACHE_VALUES];
    fovea_attention_plan *plan;
    x->args.q = fovea_tensor_bhtd(x->q, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, x->desc.head_dim);
    x->args.out = fovea_tensor_bhtd(x->out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, x->desc.value_dim);
    poison_fill(x->out, CACHE_Q_HEADS * CACHE_VALUES);
    memcpy(kept, x->out, sizeof kept);
    check_due("plan", fovea_attention_plan_create(x->c->ctx, &x->desc, &plan), FOVEA_OK);
    check_status(words, fovea_attention_execute(plan, &x->args, NULL, 0), due, words);
    test_check((memcmp(x->out, kept, sizeof kept) == 0) == (due != FOVEA_OK), "%s: outputs", words);
    fovea_attention_plan_destroy(plan);
}

static void test_calls(call *x) {
#define A(field, number) SPOIL(call, args.field, number)
#define D(field, number) SPOIL(call, desc.field, number)
    const refusal rows[] = {
        {FOVEA_ERROR_NULL, "cache", {A(cache, 0)}},
        {FOVEA_ERROR_ARGUMENT, "layer", {A(cache_layer, CACHE_LAYERS)}},
        {FOVEA_ERROR_ARGUMENT, "layer", {A(cache_layer, -1)}},
        {FOVEA_ERROR_ARGUMENT, "sequence", {A(cache_sequences, &x->none)}},
        {FOVEA_ERROR_NULL, "cache_sequences", {A(cache_sequences, 0)}},
        {FOVEA_OK, "all keys", {A(kv_lens, &x->ten)}},
        {FOVEA_ERROR_SHAPE, "11", {A(kv_lens, &x->eleven)}},
        {FOVEA_ERROR_ARGUMENT, "kv_starts", {A(kv_starts, x->ends)}},
        {FOVEA_ERROR_ARGUMENT, "kv_cu_seqlens", {A(kv_cu_seqlens, x->ends)}},
        {FOVEA_ERROR_ARGUMENT, "k", {A(k.data, x->q)}},
        {FOVEA_ERROR_ARGUMENT, "v", {A(v.data, x->q)}},
        {FOVEA_ERROR_SHAPE, "128", {D(page_keys, 128)}},
        {FOVEA_ERROR_ARGUMENT, "cache", {D(page_keys, 0)}},
        {FOVEA_ERROR_SHAPE, "9", {D(kv_len, 9)}},
        {FOVEA_ERROR_SHAPE, "kv_heads", {D(kv_heads, 3)}},
        {FOVEA_ERROR_SHAPE, "head_dim", {D(head_dim, CACHE_DIM - 8)}},
        {FOVEA_ERROR_SHAPE, "value_dim", {D(value_dim, CACHE_VALUES - 8)}},
        {FOVEA_ERROR_DTYPE, "k_dtype", {D(k_dtype, FOVEA_DTYPE_BF16)}},
        {FOVEA_ERROR_DTYPE, "v_dtype", {D(v_dtype, FOVEA_DTYPE_BF16)}},
        {FOVEA_ERROR_ARGUMENT, "cache|pages", {A(pages, &x->pages)}},
        {FOVEA_ERROR_UNSUPPORTED, "BOTTOM_RIGHT", {A(state, x->state)}},
        {FOVEA_ERROR_NULL, "kv_lens", {A(cache, 0), A(pages, &x->pages)}},
        {FOVEA_ERROR_ARGUMENT, "page", {A(cache, 0), A(pages, &x->pages), A(kv_lens, &x->ten)}},
    };
#undef A
#undef D
    make_good(x);
    refuse_each(x, rows, sizeof rows / sizeof rows[0], check_call);
}

/* A state of the same shape, of a plan without pages. */
static void *make_state(call *x) {
    fovea_attention_plan *plan;
    make_good(x);
    x->desc.page_keys = 0;
    x->desc.causal = FOVEA_CAUSAL_NONE;
    check_due("plan", fovea_attention_plan_create(x->c->ctx, &x->desc, &plan), FOVEA_OK);
    const size_t size = fovea_attention_plan_state_size(plan);
    void *memory = must_alloc((int64_t)size, 1);
    check_due("state", fovea_attention_state_init(plan, memory, size, &x->state), FOVEA_OK);
    fovea_attention_plan_destroy(plan);
    return memory;
}

/* A mask goes with a cache, but not with keys that were evicted. */
static void test_evicted(call *x) {
    fovea_attention_plan *plan;
    make_good(x);
    memset(x->mask, 1, sizeof x->mask);
    x->desc.mask = FOVEA_MASK_KEY_PADDING;
    x->args.mask = (fovea_tensor){x->mask, FOVEA_DTYPE_BOOL, {1, 1, 1, 600}, {0, 0, 0, 1}, NULL};
    check_due("plan", fovea_attention_plan_create(x->c->ctx, &x->desc, &plan), FOVEA_OK);
    check_due("a mask", fovea_attention_execute(plan, &x->args, NULL, 0), FOVEA_OK);
    check_due("evict", fovea_kv_cache_evict(x->cache, x->sequence, 2, 4), FOVEA_OK);
    check_due("a mask, and evicted keys", fovea_attention_execute(plan, &x->args, NULL, 0), FOVEA_ERROR_UNSUPPORTED);
    fovea_attention_plan_destroy(plan);
}

/* Two pages of 16 keys, and tables that reach just past them: entry by entry, and no entry further than keys do. */
static void test_pages(const fovea_context *ctx) {
    enum { PAGE = 16, DIM = 4 };
    static const struct {
        const char *what;
        int32_t table[2], starts;
        bool lists;
        int64_t stride, keys;
        fovea_status due;
    } cases[] = {{"both", {1, 0}, 0, false, 2, 17, FOVEA_OK},
                 {"a page past the last", {1, 2}, 0, false, 2, 17, FOVEA_ERROR_ARGUMENT},
                 {"a page before the first", {1, -1}, 0, false, 2, 17, FOVEA_ERROR_ARGUMENT},
                 {"a page that no key is in", {1, 2}, 0, false, 2, 16, FOVEA_OK},
                 {"a key past a row of the table", {1, 0}, 0, false, 1, 17, FOVEA_ERROR_SHAPE},
                 {"a row of one page", {1, 0}, 0, false, 1, 16, FOVEA_OK},
                 {"a list before the table", {1, 0}, -1, true, 0, 16, FOVEA_ERROR_SHAPE},
                 {"the last list", {7, 0}, 1, true, 0, 16, FOVEA_OK}};
    static float q[DIM], out[DIM], rows[2 * PAGE * DIM];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_attention_desc d;
        fovea_attention_args args;
        fovea_attention_plan *plan;
        fovea_kv_pages pages;
        fovea_attention_desc_init(&d);
        d.q_heads = d.kv_heads = d.q_len = 1;
        d.kv_len = 2 * PAGE;
        d.head_dim = d.value_dim = DIM;
        d.page_keys = PAGE;
        check_due("plan", fovea_attention_plan_create(ctx, &d, &plan), FOVEA_OK);
        fovea_kv_pages_init(&pages);
        pages.k = pages.v = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 2, 1, PAGE, DIM);
        pages.table = cases[i].table;
        pages.table_stride = cases[i].stride;
        pages.starts = cases[i].lists ? &cases[i].starts : NULL;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        args.kv_lens = &cases[i].keys;
        args.pages = &pages;
        check_due(cases[i].what, fovea_attention_execute(plan, &args, NULL, 0), cases[i].due);
        fovea_attention_plan_destroy(plan);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_errors", NULL);
    const case_contexts contexts = contexts_make();
    const cache_case c = cache_case_make(contexts.one, contexts.scalar);
    static call x;
    const int64_t tokens = 10;
    x.c = &c;
    x.cache = cache_make(&c);
    shadow *s = cache_add(x.cache);
    check_due("append", cache_append(x.cache, &s, 1, &tokens, 1), FOVEA_OK);
    x.sequence = s->number;
    x.none = s->number + 1;
    x.ten = 10;
    x.eleven = 11;
    x.table[0] = 1;
    fovea_kv_pages_init(&x.pages);
    x.pages.k = fovea_tensor_bhtd(x.q, FOVEA_DTYPE_F32, 0, CACHE_KV_HEADS, FOVEA_KV_PAGE_KEYS, CACHE_DIM);
    x.pages.v = fovea_tensor_bhtd(x.q, FOVEA_DTYPE_F32, 0, CACHE_KV_HEADS, FOVEA_KV_PAGE_KEYS, CACHE_VALUES);
    x.pages.table = x.table;
    x.pages.table_stride = 1;
    void *state = make_state(&x);
    test_calls(&x);
    test_evicted(&x);
    test_pages(contexts.one);
    fovea_kv_cache_destroy(x.cache);
    free(state);
    free(s);
    contexts_free(&contexts);
    return test_end();
}
