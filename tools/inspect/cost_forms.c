/* Facts from the library about each form (cost.h): its cost, which biases it cannot hold, and with how many queries it
 * is cheaper than form 0. Nothing is computed by formula: fovea_mha_desc_costs() and fovea_mha_create() are asked. */
#include "cost.h"

#include <string.h>

#define ROW(name, what, form, merge, fold)                                                                             \
    { name, what, FOVEA_MHA_##form, FOVEA_MHA_MERGE_##merge, FOVEA_MHA_FOLD_##fold, .possible = true }

const cost_form cost_all_forms[COST_FORMS] = {
    ROW("0", "factored: (Q Wq) (K Wk)^T", FACTORED, QUERIES, NEVER),
    ROW("0v", "the same, Wv Wo as one matrix", FACTORED, QUERIES, ALWAYS),
    ROW("1q", "merged: (Q B) K^T, B = Wq Wk^T", MERGED, QUERIES, NEVER),
    ROW("1k", "merged: Q (K B^T)^T", MERGED, KEYS, NEVER),
    ROW("1v", "1q, and Wv Wo as one matrix", MERGED, QUERIES, ALWAYS),
    ROW("2", "folded: outer W into each head's", FOLDED, QUERIES, NEVER),
    ROW("3", "inputs already projected", PROJECTED, QUERIES, NEVER),
    ROW("4", "tied: Wq = Wk = Wv", TIED, QUERIES, NEVER),
    ROW("5", "fused: [Wq Wk Wv] as one matrix", FUSED, QUERIES, NEVER),
};

const char *const cost_bias_names[COST_BIASES] = {"q_bias", "k_bias", "v_bias"};

double cost_flops(const fovea_mha_costs *c) { return c->projection_flops + c->attention_flops + c->output_flops; }

/* f->desc for a layer whose lengths are replaced. */
static void describe(cost_form *f, const fovea_mha_desc *layer, int64_t q_len, int64_t kv_len) {
    f->desc = *layer;
    f->attention = *layer->attention;
    f->attention.q_len = q_len;
    f->attention.kv_len = kv_len;
    f->desc.attention = &f->attention;
    f->desc.form = f->form;
    f->desc.merge = f->merge;
    f->desc.fold_values = f->fold;
    f->desc.inputs = f->form == FOVEA_MHA_PROJECTED ? FOVEA_MHA_SEPARATE
                     : q_len == kv_len              ? FOVEA_MHA_SELF
                                                    : FOVEA_MHA_CROSS;
}

void cost_evaluate(cost_form *f, const fovea_mha_desc *layer) {
    describe(f, layer, layer->attention->q_len, layer->attention->kv_len);
    fovea_mha_costs_init(&f->cost);
    f->possible = fovea_mha_desc_costs(&f->desc, &f->cost) == FOVEA_OK;
    if (!f->possible)
        snprintf(f->why, sizeof f->why, "%s", fovea_error_detail());
}

/* --------------------------------------------------------------------------------------------------- break-even -- */

/* Does it take fewer flops than form 0 with that many queries and keys? */
static bool is_cheaper(const cost_form *f, const fovea_mha_desc *layer, int64_t q_len, int64_t kv_len) {
    cost_form first = cost_all_forms[0], other = *f;
    fovea_mha_costs a, b;
    fovea_mha_costs_init(&a);
    fovea_mha_costs_init(&b);
    describe(&first, layer, q_len, kv_len);
    describe(&other, layer, q_len, kv_len);
    return fovea_mha_desc_costs(&first.desc, &a) == FOVEA_OK && fovea_mha_desc_costs(&other.desc, &b) == FOVEA_OK &&
           cost_flops(&b) < cost_flops(&a);
}

/* Flops grow with the queries, in each form at a rate of its own: there is one change at most. */
cost_range cost_cheaper(const cost_form *f, const fovea_mha_desc *layer, int64_t kv_len) {
    const bool few = is_cheaper(f, layer, 1, kv_len), many = is_cheaper(f, layer, COST_MANY, kv_len);
    if (few == many)
        return few ? (cost_range){1, COST_MANY} : (cost_range){0, 0};
    int64_t low = 1, high = COST_MANY;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(is_cheaper(f, layer, middle, kv_len) == few ? &low : &high) = middle;
    }
    return few ? (cost_range){1, low} : (cost_range){high, COST_MANY};
}

/* ------------------------------------------------------------------------------------------------------- biases -- */

/* Tries one bias of a layer of one head, which the form's larger ones refuse or hold alike. */
static bool holds(const fovea_context *context, const cost_form *f, int bias, char *why, size_t size) {
    static const float numbers[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    fovea_attention_desc attention;
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_mha *mha;
    fovea_attention_desc_init(&attention);
    attention.batch = attention.q_heads = attention.kv_heads = attention.q_len = attention.kv_len = 1;
    attention.head_dim = attention.value_dim = 1;
    fovea_mha_desc_init(&desc);
    desc.attention = &attention;
    desc.form = f->form;
    desc.merge = f->merge;
    desc.fold_values = f->fold;
    desc.q_features = desc.out_features = 2;
    desc.biases = 1;
    fovea_mha_weights_init(&w);
    w.q = w.k = w.v = fovea_matrix_in_out(numbers, FOVEA_DTYPE_F32, 2, 1);
    w.o = fovea_matrix_in_out(numbers, FOVEA_DTYPE_F32, 1, 2);
    const void **const biases[COST_BIASES] = {&w.q_bias, &w.k_bias, &w.v_bias};
    *biases[bias] = numbers;
    const bool good = fovea_mha_create(context, &desc, &w, &mha) == FOVEA_OK;
    if (!good)
        snprintf(why, size, "%s", fovea_error_detail());
    fovea_mha_destroy(mha);
    return good;
}

int cost_probe_biases(cost_form form[COST_FORMS], complaint to) {
    fovea_context_options options;
    fovea_context *context;
    fovea_context_options_init(&options);
    options.threads = 1;
    if (fovea_context_create(&options, &context) != FOVEA_OK)
        return complain(to, "context", "%s", fovea_error_detail());
    for (int i = 0; i < COST_FORMS; i++)
        for (int b = 0; b < COST_BIASES; b++) {
            /* The other forms have one matrix, and one bias, for all three. */
            const bool three = form[i].form == FOVEA_MHA_FACTORED || form[i].form == FOVEA_MHA_MERGED ||
                               form[i].form == FOVEA_MHA_FOLDED;
            form[i].lacks[b] = three && !holds(context, &form[i], b, form[i].why_lacks, sizeof form[i].why_lacks);
        }
    fovea_context_destroy(context);
    return 0;
}
