/* What layers cost by fovea_mha_cost(), and descriptions, weights and arguments that are refused, with
 * outputs left as they were. */
#include "attention_case.h"
#include "mha_layer.h"

#include <math.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------------- costs -- */

static void test_cost(void) {
    fovea_mha_desc d;
    fovea_attention_desc attention;
    fovea_mha_costs factored, merged, tied, folded;
    fovea_mha_desc_init(&d);
    fovea_attention_desc_init(&attention);
    check_status("no attention", fovea_mha_cost(&d, (fovea_mha_costs_init(&factored), &factored)), FOVEA_ERROR_NULL,
                 "attention");
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
        test_check(fovea_mha_cost(&d, all[i]) == FOVEA_OK, "cost: %s", fovea_error_detail());
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
    test_check(fovea_mha_cost(&d, &merged) == FOVEA_OK && merged.parameters == factored.parameters, "not cheaper");
    attention.value_dim = 768; /* d_v = d_model: the fold leaves V's projection out */
    test_check(fovea_mha_cost(&d, &merged) == FOVEA_OK, "cost: %s", fovea_error_detail());
    test_check(merged.projection_flops == 2 * 2 * 100 * m, "cheaper: %g", merged.projection_flops);
    attention.causal = FOVEA_CAUSAL_TOP_LEFT;
    attention.value_dim = 64;
    test_check(fovea_mha_cost(&d, &merged) == FOVEA_OK && merged.attention_flops == 2 * 2 * 5050 * 768.0, "causal");
    d.biases = 1; /* none of the merged keys' own */
    d.form = FOVEA_MHA_MERGED;
    d.merge = FOVEA_MHA_MERGE_KEYS;
    test_check(fovea_mha_cost(&d, &merged) == FOVEA_OK && merged.parameters == 12 * m + 2 * m + 2 * 768, "%g",
               merged.parameters);
    d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    d.q_features = (int64_t)1 << 48;
    attention.q_heads = attention.kv_heads = 1 << 20;
    check_status("huge", fovea_mha_cost(&d, &merged), FOVEA_ERROR_OVERFLOW,
                 "1048576 heads of 281474976710656 channels");
    merged.struct_size = 1;
    check_status("cost", fovea_mha_cost(&d, &merged), FOVEA_ERROR_VERSION, "fovea_mha_costs");
    check_status("cost", fovea_mha_cost(&d, NULL), FOVEA_ERROR_NULL, "cost");
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
        test_check(fovea_mha_cost(&d, &cost) == FOVEA_OK && cost.attention_flops == 4.0 * (double)count,
                   "causal %d, windows %lld, %lld: %g flops", (int)a->causal, (long long)a->window_left,
                   (long long)a->window_right, cost.attention_flops);
    }
    a->causal = FOVEA_CAUSAL_TOP_LEFT; /* whatever the sizes, in no time */
    a->window_left = a->window_right = -1;
    a->q_len = (int64_t)1 << 40;
    a->kv_len = 1000;
    test_check(fovea_mha_cost(&d, &cost) == FOVEA_OK &&
                   cost.attention_flops == 4.0 * (500500.0 + 1000.0 * (0x1p40 - 1000.0)),
               "2^40 queries: %g", cost.attention_flops);
}

/* ------------------------------------------------------------------------------------------------------ refusals -- */

static void refuse_create(const fovea_context *ctx, const fovea_mha_desc *d, const fovea_mha_weights *w,
                          fovea_status want, const char *words) {
    fovea_mha *mha = (fovea_mha *)(uintptr_t)1;
    check_status(words, fovea_mha_create(ctx, d, w, &mha), want, words);
    test_check(mha == NULL, "%s: a layer in spite of a failure", words);
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
    fovea_mha_desc d = l->desc;
    fovea_attention_desc attention = l->attention;
    fovea_mha_weights w = l->w;
    check_status("no result", fovea_mha_create(ctx, &d, &w, NULL), FOVEA_ERROR_NULL, "mha");
    refuse_create(NULL, &d, &w, FOVEA_ERROR_NULL, "ctx");
    refuse_create(ctx, NULL, &w, FOVEA_ERROR_NULL, "desc");
    refuse_create(ctx, &d, NULL, FOVEA_ERROR_NULL, "weights is NULL");
    d.struct_size++;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_VERSION, "fovea_mha_desc");
    d = l->desc;
    w.struct_size++;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_VERSION, "fovea_mha_weights");
    w = l->w;
    d.form = (fovea_mha_form)6;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_ARGUMENT, "form is 6, not a fovea_mha_form");
    d = l->desc;
    d.attention = &attention;
    attention.q_heads = 3;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_SHAPE, "q_heads 3");
    d = l->desc;
    d.q_features = 0;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_SHAPE, "q_features is 0");
    d = l->desc;
    d.k_features = 9;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_SHAPE, "k_features is 9");
    d = l->desc;
    d.attention = &attention;
    attention = l->attention;
    attention.q_len = 6;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_SHAPE, "q_len 6|FOVEA_MHA_SELF");
    d = l->desc;
    d.biases = 0;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_ARGUMENT, "q_bias|biases");
    d = l->desc;
    d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_UNSUPPORTED, "v_bias");
    d = l->desc;
    d.form = FOVEA_MHA_MERGED;
    d.merge = FOVEA_MHA_MERGE_KEYS;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_UNSUPPORTED, "q_bias");
    d.merge = FOVEA_MHA_MERGE_QUERIES;
    l->attention.softcap = 50;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_UNSUPPORTED, "k_bias|FOVEA_MHA_MERGED|a softcap");
    l->attention.softcap = 0;
    l->attention.has_sinks = 1;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_UNSUPPORTED, "k_bias|FOVEA_MHA_MERGED|a sink");
    l->attention.has_sinks = 0;
    d = l->desc;
    d.form = FOVEA_MHA_PROJECTED;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_ARGUMENT, "inputs is FOVEA_MHA_SELF, but form FOVEA_MHA_PROJECTED");
    d.inputs = FOVEA_MHA_SEPARATE;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_ARGUMENT, "q_bias is given, but form is FOVEA_MHA_PROJECTED");
    d = l->desc;
    d.form = FOVEA_MHA_FUSED;
    w.q_bias = w.k_bias = w.v_bias = NULL;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_NULL, "fused is NULL");
    w.order = (fovea_mha_order)2;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_ARGUMENT, "order is 2, not a fovea_mha_order");
    d = l->desc;
    w = l->w;
    w.k.data = NULL;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_NULL, "k is NULL");
    w = l->w;
    w.o.in = 9;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_SHAPE, "o is 9 x 8|8 x 8");
    w = l->w;
    w.v.in_stride = -1;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_STRIDE, "v has a negative");
    w = l->w;
    w.v_head_stride = INT64_MAX;
    refuse_create(ctx, &d, &w, FOVEA_ERROR_OVERFLOW, "strides of v");

    fovea_mha *mha;
    test_check(fovea_mha_create(ctx, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail());
    const int64_t n = layer_floats(l);
    float *out = must_alloc(2 * n, sizeof *out), *blank = must_alloc(2 * n, sizeof *blank);
    poison_fill(out, 2 * n);
    poison_fill(blank, 2 * n);
    const fovea_attention_args good = layer_args(l, out);
    fovea_attention_args bad = good;
    const int64_t lens[] = {5, 6};
    struct {
        fovea_status want;
        const char *words;
    } expected[] = {{FOVEA_ERROR_VERSION, "fovea_attention_args"},
                    {FOVEA_ERROR_NULL, "q is NULL"},
                    {FOVEA_ERROR_SHAPE, "q has|9 channels"},
                    {FOVEA_ERROR_SHAPE, "q: token axis"},
                    {FOVEA_ERROR_ARGUMENT, "k is given, but inputs is FOVEA_MHA_SELF"},
                    {FOVEA_ERROR_NULL, "out is NULL"},
                    {FOVEA_ERROR_SHAPE, "out has"},
                    {FOVEA_ERROR_ALIAS, "out overlaps q"},
                    {FOVEA_ERROR_SHAPE, "kv_lens[1] is 6"},
                    {FOVEA_ERROR_ARGUMENT, "mask is given"},
                    {FOVEA_ERROR_ALIAS, "lse overlaps out"},
                    {FOVEA_ERROR_ALIAS, "out overlaps q_lens"},
                    {FOVEA_ERROR_ALIAS, "stats|overlaps q"},
                    {FOVEA_ERROR_ALIAS, "stats overlaps out"},
                    {FOVEA_ERROR_SHAPE, "weights"}};
    for (int i = 0; i < 15; i++) {
        bad = good;
        float *const place = i == 12 ? l->x[0] : out;
        fovea_attention_stats *stats = (fovea_attention_stats *)(((uintptr_t)place + 7) / 8 * 8), saved;
        memcpy(&saved, stats, sizeof saved);
        switch (i) {
        case 0: bad.struct_size++; break;
        case 1: bad.q.data = NULL; break;
        case 2: bad.q.shape[3] = 9; break;
        case 3: bad.q.shape[2] = 4; break;
        case 4: bad.k = bad.q; break;
        case 5: bad.out.data = NULL; break;
        case 6: bad.out.shape[3] = 7; break;
        case 7: bad.out.data = l->x[0]; break;
        case 8: bad.kv_lens = lens; break;
        case 9: bad.mask = fovea_tensor_bhtd(blank, FOVEA_DTYPE_F32, 2, 2, 5, 5); break;
        case 10: bad.lse = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 2, 2, 5, 1); break;
        case 11: bad.q_lens = bad.out.data; break;
        case 12:
        case 13:
            fovea_attention_stats_init(stats);
            bad.stats = stats;
            break;
        default: bad.weights = fovea_tensor_bhtd(out + n, FOVEA_DTYPE_F32, 2, 2, 5, 4); break;
        }
        check_status(expected[i].words, fovea_mha_execute(mha, &bad, NULL, 0), expected[i].want, expected[i].words);
        memcpy(stats, &saved, sizeof saved);
        test_same(out, blank, 2 * n, "after %s", expected[i].words);
    }
    char small[8];
    check_status("workspace", fovea_mha_execute(mha, &good, small, 8), FOVEA_ERROR_WORKSPACE, "8 bytes");
    check_status("no layer", fovea_mha_execute(NULL, &good, NULL, 0), FOVEA_ERROR_NULL, "mha");
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
