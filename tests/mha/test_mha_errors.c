/* Costs of layers by fovea_mha_desc_costs(), and descriptions, weights and arguments that are refused, with
 * outputs left as they were. */
#include "attention_case.h"
#include "mha_layer.h"
#include "refusals.h"

#include <math.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------------- costs -- */

static void test_cost(void) {
    fovea_mha_desc d;
    fovea_attention_desc attention;
    fovea_mha_costs factored, merged, tied, folded;
    fovea_mha_desc_init(&d);
    fovea_attention_desc_init(&attention);
    check_status("no attention", fovea_mha_desc_costs(&d, (fovea_mha_costs_init(&factored), &factored)),
                 FOVEA_ERROR_NULL, "attention");
    d.attention = &attention;
    d.q_features = d.out_features = 768;
    attention.q_heads = attention.kv_heads = 12;
    attention.q_len = attention.kv_len = 100;
    attention.head_dim = attention.value_dim = 64;
    fovea_mha_costs *all[] = {&factored, &merged, &tied, &folded};
    for (int i = 0; i < 4; i++) {
        fovea_mha_costs_init(all[i]);
        d.form = i == 1 ? FOVEA_MHA_MERGED : i == 2 ? FOVEA_MHA_TIED : FOVEA_MHA_FACTORED;
        d.fold_values = i == 3 ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
        test_check(fovea_mha_desc_costs(&d, all[i]) == FOVEA_OK, "cost: %s", fovea_error_detail());
    }
    const double m = 768.0 * 768.0;
    test_check(factored.parameters == 4 * m, "factored: %g", factored.parameters);
    test_check(merged.parameters == 12 * m + 2 * m, "merged: %g", merged.parameters);
    test_check(tied.parameters == 2 * m && tied.projection_flops == 2 * 100 * m, "tied: %g", tied.parameters);
    test_check(folded.parameters == 2 * m + 12 * m, "folded: %g", folded.parameters);
    test_check(factored.projection_flops == 3 * 2 * 100 * m, "%g", factored.projection_flops);
    test_check(factored.attention_flops == 2 * 2 * 100 * 100 * 768.0, "%g", factored.attention_flops);
    test_check(factored.output_flops == 2 * 100 * m, "%g", factored.output_flops);
    test_check(merged.attention_flops == 2 * 100 * 100 * (12 * 768.0 + 768.0), "%g", merged.attention_flops);
    test_check(factored.scratch == 4 * 4 * 100 * 768.0, "%g", factored.scratch);
    test_check(factored.bytes > factored.scratch && merged.scratch > factored.scratch, "bytes, scratch");
    d.form = FOVEA_MHA_FACTORED;
    d.fold_values = FOVEA_MHA_FOLD_CHEAPER;
    test_check(fovea_mha_desc_costs(&d, &merged) == FOVEA_OK && merged.parameters == factored.parameters,
               "not cheaper");
    attention.value_dim = 768; /* d_v = d_model: the fold leaves V's projection out */
    test_check(fovea_mha_desc_costs(&d, &merged) == FOVEA_OK, "cost: %s", fovea_error_detail());
    test_check(merged.projection_flops == 2 * 2 * 100 * m, "cheaper: %g", merged.projection_flops);
    attention.causal = FOVEA_CAUSAL_TOP_LEFT;
    attention.value_dim = 64;
    test_check(fovea_mha_desc_costs(&d, &merged) == FOVEA_OK && merged.attention_flops == 2 * 2 * 5050 * 768.0,
               "causal");
    d.biases = 1; /* none of the merged keys' own */
    d.form = FOVEA_MHA_MERGED;
    d.merge = FOVEA_MHA_MERGE_KEYS;
    test_check(fovea_mha_desc_costs(&d, &merged) == FOVEA_OK && merged.parameters == 12 * m + 2 * m + 2 * 768, "%g",
               merged.parameters);
    d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    d.q_features = (int64_t)1 << 48;
    attention.q_heads = attention.kv_heads = 1 << 20;
    check_status("huge", fovea_mha_desc_costs(&d, &merged), FOVEA_ERROR_OVERFLOW,
                 "1048576 heads of 281474976710656 channels");
    merged.struct_size = 1;
    check_status("cost", fovea_mha_desc_costs(&d, &merged), FOVEA_ERROR_VERSION, "fovea_mha_costs");
    check_status("cost", fovea_mha_desc_costs(&d, NULL), FOVEA_ERROR_NULL, "cost");
}

/* Pairs that causality and windows leave, counted one by one. */
static void test_cost_pairs(void) {
    static const int64_t windows[] = {-1, 0, 1, 4, 100, INT64_MAX},
                         sizes[][2] = {{1, 1}, {7, 7}, {9, 4}, {4, 9}, {5, 0}};
    fovea_mha_desc d;
    fovea_mha_costs cost;
    fovea_mha_costs_init(&cost);
    fovea_mha_desc_init(&d);
    d.q_features = 1;
    d.inputs = FOVEA_MHA_CROSS;
    fovea_attention_desc attention, *a = &attention;
    fovea_attention_desc_init(a);
    d.attention = a;
    a->q_heads = a->kv_heads = a->head_dim = a->value_dim = 1;
    for (int i = 0; i < 5 * 4 * 6 * 6; i++) {
        a->q_len = sizes[i % 5][0];
        a->kv_len = sizes[i % 5][1];
        a->causal = (fovea_causal)(i / 5 % 4);
        a->window_left = windows[i / 20 % 6];
        a->window_right = windows[i / 120];
        const int64_t offset = a->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? a->kv_len - a->q_len : 0;
        int64_t count = 0;
        for (int64_t row = 0; row < a->q_len; row++)
            for (int64_t key = 0; key < a->kv_len; key++) {
                const int64_t after = key - row - offset;
                count += (a->window_left < 0 || -after <= a->window_left) &&
                         (a->window_right < 0 || after <= a->window_right) &&
                         (a->causal == FOVEA_CAUSAL_NONE || after <= 0);
            }
        test_check(fovea_mha_desc_costs(&d, &cost) == FOVEA_OK && cost.attention_flops == 4.0 * (double)count,
                   "causal %d, windows %lld, %lld: %g flops", (int)a->causal, (long long)a->window_left,
                   (long long)a->window_right, cost.attention_flops);
    }
    a->causal = FOVEA_CAUSAL_TOP_LEFT; /* whatever the sizes, in no time */
    a->window_left = a->window_right = -1;
    a->q_len = (int64_t)1 << 40;
    a->kv_len = 1000;
    test_check(fovea_mha_desc_costs(&d, &cost) == FOVEA_OK &&
                   cost.attention_flops == 4.0 * (500500.0 + 1000.0 * (0x1p40 - 1000.0)),
               "2^40 queries: %g", cost.attention_flops);
}

/* ------------------------------------------------------------------------------------------------------ refusals -- */

/* The arguments of fovea_mha_create(). */
typedef struct creation {
    const fovea_context *ctx;
    fovea_mha_desc d;
    fovea_attention_desc attention;
    fovea_mha_weights w;
} creation;

static void check_create(void *spoiled, fovea_status want, const char *words) {
    const creation *x = spoiled;
    fovea_mha *mha = (fovea_mha *)(uintptr_t)1;
    check_status(words, fovea_mha_create(x->ctx, &x->d, &x->w, &mha), want, words);
    test_check(mha == NULL, "%s: a layer in spite of a failure", words);
}

#define MAP(field, number) SPOIL(creation, field, number)
static const refusal creations[] = {
    {FOVEA_ERROR_NULL, "ctx", {MAP(ctx, 0)}},
    {FOVEA_ERROR_VERSION, "fovea_mha_desc", {MAP(d.struct_size, sizeof(fovea_mha_desc) + 1)}},
    {FOVEA_ERROR_VERSION, "fovea_mha_weights", {MAP(w.struct_size, sizeof(fovea_mha_weights) + 1)}},
    {FOVEA_ERROR_ARGUMENT, "form is 6, not a fovea_mha_form", {MAP(d.form, 6)}},
    {FOVEA_ERROR_SHAPE, "q_heads 3", {MAP(attention.q_heads, 3)}},
    {FOVEA_ERROR_SHAPE, "q_features is 0", {MAP(d.q_features, 0)}},
    {FOVEA_ERROR_SHAPE, "k_features is 9", {MAP(d.k_features, 9)}},
    {FOVEA_ERROR_SHAPE, "q_len 6|FOVEA_MHA_SELF", {MAP(attention.q_len, 6)}},
    {FOVEA_ERROR_ARGUMENT, "q_tokens is 5, but packed of the attention is 0", {MAP(d.q_tokens, 5)}},
    {FOVEA_ERROR_ARGUMENT, "q_bias|biases", {MAP(d.biases, 0)}},
    {FOVEA_ERROR_UNSUPPORTED, "v_bias", {MAP(d.fold_values, FOVEA_MHA_FOLD_ALWAYS)}},
    {FOVEA_ERROR_UNSUPPORTED, "q_bias", {MAP(d.form, FOVEA_MHA_MERGED), MAP(d.merge, FOVEA_MHA_MERGE_KEYS)}},
    {FOVEA_ERROR_UNSUPPORTED,
     "k_bias|FOVEA_MHA_MERGED|a softcap",
     {MAP(d.form, FOVEA_MHA_MERGED), MAP(d.merge, FOVEA_MHA_MERGE_QUERIES),
      MAP(attention.softcap, 0x4049000000000000)}},
    {FOVEA_ERROR_UNSUPPORTED,
     "k_bias|FOVEA_MHA_MERGED|a sink",
     {MAP(d.form, FOVEA_MHA_MERGED), MAP(d.merge, FOVEA_MHA_MERGE_QUERIES), MAP(attention.has_sinks, 1)}},
    {FOVEA_ERROR_UNSUPPORTED,
     "page_keys is 256|factored, folded or fused",
     {MAP(d.form, FOVEA_MHA_MERGED), MAP(attention.page_keys, FOVEA_KV_PAGE_KEYS)}},
    {FOVEA_ERROR_UNSUPPORTED,
     "page_keys is 256|factored, folded or fused",
     {MAP(d.form, FOVEA_MHA_TIED), MAP(attention.page_keys, FOVEA_KV_PAGE_KEYS)}},
    {FOVEA_ERROR_UNSUPPORTED, "page_keys is 128|pages of a cache", {MAP(attention.page_keys, 128)}},
    {FOVEA_ERROR_ARGUMENT,
     "inputs is FOVEA_MHA_SELF, but form FOVEA_MHA_PROJECTED",
     {MAP(d.form, FOVEA_MHA_PROJECTED)}},
    {FOVEA_ERROR_ARGUMENT,
     "q_bias is given, but form is FOVEA_MHA_PROJECTED",
     {MAP(d.form, FOVEA_MHA_PROJECTED), MAP(d.inputs, FOVEA_MHA_SEPARATE)}},
    {FOVEA_ERROR_ARGUMENT, "q_bias is given, but form is FOVEA_MHA_FUSED", {MAP(d.form, FOVEA_MHA_FUSED)}},
    {FOVEA_ERROR_ARGUMENT, "order is 2, not a fovea_mha_order", {MAP(w.order, 2)}},
    {FOVEA_ERROR_NULL, "k is NULL", {MAP(w.k.data, 0)}},
    {FOVEA_ERROR_SHAPE, "o is 9 x 8|8 x 8", {MAP(w.o.in, 9)}},
    {FOVEA_ERROR_STRIDE, "v has a negative", {MAP(w.v.in_stride, -1)}},
    {FOVEA_ERROR_OVERFLOW, "strides of v", {MAP(w.v_head_stride, INT64_MAX)}},
};
#undef MAP

/* Execution: nothing is written. */
typedef struct execution {
    fovea_mha *mha;
    fovea_attention_args args;
    const float *out, *blank;
    int64_t n;
} execution;

static void check_execute(void *spoiled, fovea_status want, const char *words) {
    const execution *x = spoiled;
    check_status(words, fovea_mha_execute(x->mha, &x->args, NULL, 0), want, words);
    test_same(x->out, x->blank, x->n, "after %s", words);
}

/* The statistics over memory that is read or written. */
static void check_stats(execution *x, float *place, const char *words) {
    fovea_attention_stats *stats = (fovea_attention_stats *)(((uintptr_t)place + 7) / 8 * 8), saved;
    memcpy(&saved, stats, sizeof saved);
    fovea_attention_stats_init(stats);
    fovea_attention_args args = x->args;
    args.stats = stats;
    check_status(words, fovea_mha_execute(x->mha, &args, NULL, 0), FOVEA_ERROR_ALIAS, words);
    memcpy(stats, &saved, sizeof saved);
    test_same(x->out, x->blank, x->n, "after %s", words);
}

static void test_refused(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "refused");
    const layer_sizes s = {.batch = 2,
                           .q_len = 5,
                           .kv_len = 5,
                           .heads = 2,
                           .kv_heads = 2,
                           .d_k = 4,
                           .d_v = 4,
                           .features = {8, 8, 8},
                           .out = 8,
                           .biases = true};
    layer *l = layer_make(&s, &r);
    creation good = {.ctx = ctx, .d = l->desc, .attention = l->attention, .w = l->w};
    good.d.attention = &good.attention;
    refuse_each(&good, creations, sizeof creations / sizeof creations[0], check_create);
    const float ones[4] = {1, 1, 1, 1};
    for (int i = 0; i < 2; i++) { /* norms of heads that no step makes, each alone */
        creation normed = good;
        normed.d.attention = &normed.attention;
        normed.d.form = FOVEA_MHA_TIED;
        normed.d.biases = 0;
        normed.w.q_bias = normed.w.k_bias = normed.w.v_bias = normed.w.o_bias = NULL;
        *(i ? &normed.w.k_norm : &normed.w.q_norm) = ones;
        check_create(&normed, FOVEA_ERROR_UNSUPPORTED, i ? "k_norm" : "q_norm");
    }
    creation fused = good;
    fused.d.attention = &fused.attention;
    fused.d.form = FOVEA_MHA_FUSED;
    fused.w.q_bias = fused.w.k_bias = fused.w.v_bias = NULL;
    check_create(&fused, FOVEA_ERROR_NULL, "fused is NULL");
    fovea_mha *mha;
    check_status("no result", fovea_mha_create(ctx, &l->desc, &l->w, NULL), FOVEA_ERROR_NULL, "mha");
    check_status("no desc", fovea_mha_create(ctx, NULL, &l->w, &mha), FOVEA_ERROR_NULL, "desc");
    check_status("no weights", fovea_mha_create(ctx, &l->desc, NULL, &mha), FOVEA_ERROR_NULL, "weights is NULL");

    test_check(fovea_mha_create(ctx, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail());
    const int64_t n = layer_floats(l), lens[] = {5, 6};
    float *out = must_alloc(2 * n, sizeof *out), *blank = must_alloc(2 * n, sizeof *blank);
    poison_fill(out, 2 * n);
    poison_fill(blank, 2 * n);
    execution x = {.mha = mha, .args = layer_args(l, out), .out = out, .blank = blank, .n = 2 * n};
#define ARG(field, number) SPOIL(execution, args.field, number)
    const refusal rows[] = {{FOVEA_ERROR_VERSION, "fovea_attention_args", {ARG(struct_size, sizeof x.args + 1)}},
                            {FOVEA_ERROR_NULL, "q is NULL", {ARG(q.data, 0)}},
                            {FOVEA_ERROR_SHAPE, "q has|9 channels", {ARG(q.shape[3], 9)}},
                            {FOVEA_ERROR_SHAPE, "q: token axis", {ARG(q.shape[2], 4)}},
                            {FOVEA_ERROR_ARGUMENT, "k is given, but inputs is FOVEA_MHA_SELF", {ARG(k.data, l->x[0])}},
                            {FOVEA_ERROR_NULL, "out is NULL", {ARG(out.data, 0)}},
                            {FOVEA_ERROR_SHAPE, "out has", {ARG(out.shape[3], 7)}},
                            {FOVEA_ERROR_ALIAS, "out overlaps q", {ARG(out.data, l->x[0])}},
                            {FOVEA_ERROR_SHAPE, "kv_lens[1] is 6", {ARG(kv_lens, lens)}},
                            {FOVEA_ERROR_ALIAS, "out overlaps q_lens", {ARG(q_lens, out)}}};
#undef ARG
    refuse_each(&x, rows, sizeof rows / sizeof rows[0], check_execute);
    execution more = x;
    more.args.mask = fovea_tensor_bhtd(blank, FOVEA_DTYPE_F32, 2, 2, 5, 5);
    check_execute(&more, FOVEA_ERROR_ARGUMENT, "mask is given");
    more = x;
    more.args.lse = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 2, 2, 5, 1);
    check_execute(&more, FOVEA_ERROR_ALIAS, "lse overlaps out");
    more = x;
    more.args.weights = fovea_tensor_bhtd(out + n, FOVEA_DTYPE_F32, 2, 2, 5, 4);
    check_execute(&more, FOVEA_ERROR_SHAPE, "weights");
    check_stats(&x, l->x[0], "stats|overlaps q");
    check_stats(&x, out, "stats overlaps out");
    char small[8];
    check_status("workspace", fovea_mha_execute(mha, &x.args, small, 8), FOVEA_ERROR_WORKSPACE, "8 bytes");
    check_status("no layer", fovea_mha_execute(NULL, &x.args, NULL, 0), FOVEA_ERROR_NULL, "mha");
    check_status("no args", fovea_mha_execute(mha, NULL, NULL, 0), FOVEA_ERROR_NULL, "args");
    test_check(fovea_mha_workspace_size(NULL) == 0, "workspace of no layer");
    fovea_mha_destroy(NULL);
    fovea_mha_destroy(mha);
    free(out);
    free(blank);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_errors", NULL);
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_cost();
    test_cost_pairs();
    test_refused(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
