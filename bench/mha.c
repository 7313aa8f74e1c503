/* fovea-bench: a whole layer of self-attention through the public API, with biases and the workspace of the caller, in
 * a form of the description: factored, merged, factored with values folded into W^O, tied or fused. Before it is timed,
 * its first sequence is computed again on the scalar tier and must have the same bits.
 *
 * Flops and bytes are those of fovea_mha_desc_costs(): merged matrices and folded values count what they cost, not what
 * factors would.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

typedef struct layer {
    bench base;
    fovea_mha_desc desc;
    fovea_attention_desc attention; /* of desc */
    /* From begin to end. */
    fovea_mha *mha;
    fovea_attention_args args;
    void *weights, *workspace;
} layer;

static const char *const form_words[] = {"factored", "merged", "folded_values", "tied", "fused", NULL};
static const fovea_mha_form forms[] = {FOVEA_MHA_FACTORED, FOVEA_MHA_MERGED, FOVEA_MHA_FACTORED, FOVEA_MHA_TIED,
                                       FOVEA_MHA_FUSED};
enum { FOLDED_VALUES = 2, FUSED = 4 };

static void layer_end(bench *base) {
    layer *self = (layer *)base;
    fovea_mha_destroy(self->mha);
    fovea_context_destroy(self->base.context);
    free(self->args.q.data);
    free(self->args.out.data);
    free(self->weights);
    free(self->workspace);
    fovea_attention_args_init(&self->args);
    self->mha = NULL;
    self->base.context = NULL;
    self->weights = NULL;
    self->workspace = NULL;
}

/* All matrices from one array of 4 d^2 numbers: q, k, v, which one after another are the fused weight, and o. */
static const char *make(const layer *self, fovea_isa isa, int threads, int64_t batch, fovea_context **context,
                        fovea_mha **mha) {
    fovea_mha_desc desc = self->desc;
    fovea_attention_desc attention = self->attention;
    attention.batch = batch;
    desc.attention = &attention;
    const fovea_dtype dtype = attention.dtype;
    const int64_t d = desc.q_features, size = d * d * fv_dtype_size(dtype);
    const char *w = self->weights;
    fovea_mha_weights weights;
    fovea_mha_weights_init(&weights);
    if (desc.form == FOVEA_MHA_FUSED)
        weights.fused = fovea_matrix_out_in(w, dtype, 3 * d, d);
    else
        weights.q = fovea_matrix_out_in(w, dtype, d, d);
    if (desc.form == FOVEA_MHA_FACTORED || desc.form == FOVEA_MHA_MERGED) {
        weights.k = fovea_matrix_out_in(w + size, dtype, d, d);
        weights.v = fovea_matrix_out_in(w + 2 * size, dtype, d, d);
    }
    weights.o = fovea_matrix_out_in(w + 3 * size, dtype, d, d);
    weights.bias_dtype = dtype;
    weights.o_bias = w;
    if (desc.form == FOVEA_MHA_FUSED)
        weights.fused_bias = w;
    else
        weights.q_bias = w;
    const char *error = bench_context(isa, threads, context);
    return error == NULL && fovea_mha_create(*context, &desc, &weights, mha) != FOVEA_OK ? fovea_error_detail() : error;
}

static const char *check(const layer *self) {
    fovea_context *context = NULL;
    fovea_mha *mha = NULL;
    fovea_attention_args args = self->args;
    const size_t bytes = (size_t)(args.out.shape[2] * args.out.shape[3] * fv_dtype_size(args.out.dtype));
    args.q.shape[0] = args.out.shape[0] = 1;
    args.out.data = bench_alloc((int64_t)bytes);
    if (args.out.data == NULL)
        return "no memory";
    const char *error = make(self, FOVEA_ISA_SCALAR, 1, 1, &context, &mha);
    if (error == NULL && fovea_mha_execute(mha, &args, NULL, 0) != FOVEA_OK)
        error = fovea_error_detail();
    else if (error == NULL && memcmp(args.out.data, self->args.out.data, bytes) != 0)
        error = "WRONG: the first sequence is not what scalar gives";
    fovea_mha_destroy(mha);
    fovea_context_destroy(context);
    free(args.out.data);
    return error;
}

static void layer_run(bench *base) {
    layer *self = (layer *)base;
    fovea_mha_execute(self->mha, &self->args, self->workspace, fovea_mha_workspace_size(self->mha));
}

static const char *layer_begin(bench *base, shim_cost *cost) {
    layer *self = (layer *)base;
    const fovea_attention_desc *a = &self->attention;
    const int64_t d = self->desc.q_features, n = a->batch * a->q_len * d;
    fovea_attention_args_init(&self->args);
    self->args.q = fovea_tensor_bhtd(bench_numbers(n, a->dtype, -1, 1, 1), a->dtype, a->batch, 1, a->q_len, d);
    self->args.out = fovea_tensor_bhtd(bench_alloc(n * fv_dtype_size(a->dtype)), a->dtype, a->batch, 1, a->q_len, d);
    self->weights = bench_numbers(4 * d * d, a->dtype, -0.05F, 0.05F, 2);
    if (!self->args.q.data || !self->args.out.data || !self->weights)
        return "no memory";
    const char *error = make(self, self->base.isa, self->base.threads, a->batch, &self->base.context, &self->mha);
    if (error != NULL)
        return error;
    self->workspace = bench_alloc((int64_t)fovea_mha_workspace_size(self->mha));
    if (!self->workspace)
        return "no memory";
    layer_run(base);
    error = self->base.checked ? NULL : check(self);
    self->base.checked = true;
    fovea_mha_costs costs;
    fovea_mha_costs_init(&costs);
    if (fovea_mha_desc_costs(&self->desc, &costs) != FOVEA_OK)
        return fovea_error_detail();
    cost->flops = costs.projection_flops + costs.attention_flops + costs.output_flops;
    cost->bytes = costs.bytes;
    cost->peak = self->base.threads * bench_peak((fv_isa)self->base.isa);
    return error;
}

static bench *layer_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    const int64_t most = INT64_C(1) << 20;
    int64_t dtype = 0, arithmetic = 0, batch = 1, tokens = 512, d_model = 768, heads = 12, form = FUSED;
    const cli_key keys[] = {
        {"dtype", fv_dtype_words, 0, 0, &dtype}, {"arithmetic", fv_arithmetic_words, 0, 0, &arithmetic},
        {"batch", NULL, 1, most, &batch},        {"tokens", NULL, 1, most, &tokens},
        {"d_model", NULL, 1, 1 << 15, &d_model}, {"heads", NULL, 1, 1 << 15, &heads},
        {"form", form_words, 0, 0, &form}};
    const bench functions = {.begin = layer_begin, .run = layer_run, .end = layer_end};
    layer *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    if (d_model % heads != 0) {
        snprintf(error, BENCH_ERROR_SIZE, "d_model=%" PRId64 " is not a multiple of heads=%" PRId64, d_model, heads);
        free(self);
        return NULL;
    }
    fovea_mha_desc_init(&self->desc);
    fovea_attention_desc_init(&self->attention);
    self->desc.attention = &self->attention;
    self->desc.form = forms[form];
    self->desc.fold_values = form == FOLDED_VALUES ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
    self->desc.q_features = self->desc.out_features = d_model;
    self->desc.biases = 1;
    self->attention.dtype = fv_dtype_of_word[dtype];
    arithmetic = bench_arithmetic((fovea_arithmetic)arithmetic, (fv_isa)self->base.isa, self->attention.dtype, 0);
    self->attention.arithmetic = (fovea_arithmetic)arithmetic;
    self->attention.batch = batch;
    self->attention.q_heads = self->attention.kv_heads = heads;
    self->attention.q_len = self->attention.kv_len = tokens;
    self->attention.head_dim = self->attention.value_dim = d_model / heads;
    bench_name(&self->base, "mha/%s/b%" PRId64 "_t%" PRId64 "_d%" PRId64 "_h%" PRId64 "/form:%s", fv_dtype_words[dtype],
               batch, tokens, d_model, heads, form_words[form]);
    if (arithmetic)
        bench_name(&self->base, "/arithmetic:%s", fv_arithmetic_words[arithmetic]);
    bench_name_end(&self->base);
    return &self->base;
}

const bench_kind bench_mha = {"mha", layer_make,
                              "dtype=f32|bf16|f16 arithmetic=exact|bf16|bf16_tile|fastest\n"
                              "      batch=1 tokens=512 d_model=768 heads=12\n"
                              "      form=factored|merged|folded_values|tied|fused isa=best|TIER threads=1"};
