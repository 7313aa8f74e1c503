/* Memory for layers: every allocation of fovea_mha_create() and fovea_mha_execute() that fails gives a clean status
 * (test_allocation.c), in every form, with values folded or not, with and without biases. */
#include "attention_case.h"
#include "failing.h"
#include "mha_forms.h"
#include "mha_layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 16, HEADS = 2, CHANNELS = FEATURES / HEADS };

static const layer_sizes sizes = {.batch = 2,
                                  .q_len = 9,
                                  .kv_len = 9,
                                  .heads = HEADS,
                                  .kv_heads = HEADS,
                                  .d_k = CHANNELS,
                                  .d_v = CHANNELS,
                                  .features = {FEATURES, FEATURES, FEATURES},
                                  .out = FEATURES,
                                  .biases = true};

/* given: W_i of MERGED. biases: all that this form may have; values that are folded have none. */
static void fail_form(const fovea_context *ctx, const layer *l, const mha_form *k, bool given, bool biases,
                      bool persistent) {
    static float zeros[FEATURES * 3 * FEATURES];
    const fovea_matrix square = fovea_matrix_in_out(zeros, FOVEA_DTYPE_F32, FEATURES, FEATURES),
                       merged[HEADS] = {square, square};
    const bool each = k->form != FOVEA_MHA_PROJECTED && k->form != FOVEA_MHA_FUSED && k->form != FOVEA_MHA_TIED;
    const bool q_bias = k->form != FOVEA_MHA_MERGED || (!given && k->merge == FOVEA_MHA_MERGE_QUERIES);
    fovea_mha_desc desc = l->desc;
    fovea_mha_weights w = l->w;
    desc.form = k->form;
    desc.merge = k->merge;
    desc.inputs = k->form == FOVEA_MHA_PROJECTED ? FOVEA_MHA_SEPARATE : FOVEA_MHA_SELF;
    w.order = k->order;
    desc.out_features = k->output ? FEATURES : 0;
    desc.fold_values = k->fold ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
    desc.biases = biases;
    w.q_bias = biases && (each || k->form == FOVEA_MHA_TIED) && q_bias ? zeros : NULL;
    w.k_bias = biases && each ? zeros : NULL;
    w.v_bias = biases && each && !k->fold ? zeros : NULL;
    w.o_bias = biases && k->output ? zeros : NULL;
    if (k->form == FOVEA_MHA_FOLDED) {
        w.outer_q = w.outer_k = w.outer_v = square;
        w.outer_q_bias = w.outer_k_bias = biases ? zeros : NULL;
        w.outer_v_bias = biases && !k->fold ? zeros : NULL;
    }
    if (k->form == FOVEA_MHA_FUSED) {
        w.fused = fovea_matrix_in_out(zeros, FOVEA_DTYPE_F32, FEATURES, 3 * FEATURES);
        w.fused_bias = biases && !k->fold ? zeros : NULL;
    }
    w.merged = given ? merged : NULL;
    char what[96];
    snprintf(what, sizeof what, "%s%s%s", k->name, given ? ", given" : "", biases ? ", biases" : "");
    fovea_mha *mha;
    FAIL_MAKING(what, 3, persistent, mha, fovea_mha_destroy, fovea_mha_create(ctx, &desc, &w, &mha))
}

static void fail_forms(const fovea_context *ctx, const layer *l, bool persistent) {
    for (int i = 0; i < MHA_FORMS; i++)
        for (int given = 0; given <= (mha_forms[i].form == FOVEA_MHA_MERGED); given++)
            for (int biases = 0; biases < 2; biases++)
                fail_form(ctx, l, &mha_forms[i], given, biases, persistent);
}

static void fail_execution(const fovea_context *ctx, layer *l, bool persistent) {
    l->desc.form = FOVEA_MHA_MERGED;
    fovea_mha *mha, *other;
    test_check(fovea_mha_create(ctx, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail());
    float *want = layer_run(ctx, l, &l->desc, &l->w, "merged");
    const int64_t floats = layer_floats(l);
    float *out = must_alloc(floats, sizeof *out), *blank = must_alloc(floats, sizeof *blank);
    poison_fill(out, floats);
    poison_fill(blank, floats);
    fovea_attention_args args = layer_args(l, out);
    FAIL_EACH("fovea_mha_execute", 1, persistent, fovea_mha_execute(mha, &args, NULL, 0)) {
        test_same(out, f.through ? want : blank, floats, "fovea_mha_execute, allocation %" PRId64 " fails", f.n);
        test_check(live == f.live_before, "fovea_mha_execute leaves %lld blocks", live - f.live_before);
    }
    const size_t size = fovea_mha_workspace_size(mha);
    void *workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("fovea_mha_execute", fovea_mha_execute(mha, &args, workspace, size));
    FAIL_MAKING("fovea_mha_reshape", 1, persistent, other, fovea_mha_destroy, fovea_mha_reshape(mha, 1, 5, 5, &other))
    fovea_mha_destroy(mha);
    void *all[] = {want, out, blank, workspace};
    for (int i = 0; i < 4; i++)
        free(all[i]);
}

/* Norms of 16 bits, alone and of a layer's queries and keys, allocate nothing with a workspace. */
static void test_norms(const fovea_context *ctx) {
    enum { TOKENS = 9, ELEMENTS = 2 * TOKENS * FEATURES };
    static uint16_t x[ELEMENTS], y[ELEMENTS];
    static float zeros[FEATURES * FEATURES];
    fovea_norm_args norm;
    fovea_norm_args_init(&norm);
    norm.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_BF16, 2, 1, TOKENS, FEATURES);
    norm.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_BF16, 2, 1, TOKENS, FEATURES);
    norm.weight = x;
    norm.weight_dtype = FOVEA_DTYPE_F16;
    size_t size = fovea_norm_workspace_size(ctx, &norm);
    void *workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("a norm", fovea_norm_rms(ctx, &norm, workspace, size));
    free(workspace);

    attention_case c = case_plain(2, HEADS, HEADS, TOKENS, TOKENS, CHANNELS, CHANNELS);
    c.desc.dtype = FOVEA_DTYPE_BF16;
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_mha *mha;
    fovea_attention_args args;
    fovea_mha_desc_init(&desc);
    fovea_mha_weights_init(&w);
    fovea_attention_args_init(&args);
    desc.q_features = FEATURES;
    desc.attention = &c.desc;
    w.q = w.k = w.v = fovea_matrix_in_out(zeros, FOVEA_DTYPE_F32, FEATURES, FEATURES);
    w.q_norm = w.k_norm = zeros;
    if (!test_check(fovea_mha_create(ctx, &desc, &w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    args.q = norm.x;
    args.out = fovea_tensor_bhtd(y, FOVEA_DTYPE_BF16, 2, HEADS, TOKENS, CHANNELS);
    size = fovea_mha_workspace_size(mha);
    workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("a layer with norms", fovea_mha_execute(mha, &args, workspace, size));
    free(workspace);
    fovea_mha_destroy(mha);
    FAIL_MAKING("a layer with norms", 3, false, mha, fovea_mha_destroy, fovea_mha_create(ctx, &desc, &w, &mha))
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_mha", NULL);
    rng r = rng_stream(test_seed(), "fail layer");
    layer *l = layer_make(&sizes, &r);
    const case_contexts all = contexts_make();
    const fovea_context *const contexts[] = {all.one, all.own, all.three};
    for (int i = 0; i < 3; i++) {
        for (int persistent = 0; persistent < 2; persistent++)
            fail_forms(contexts[i], l, persistent);
        fail_execution(contexts[i], l, i & 1);
        test_norms(contexts[i]);
    }
    contexts_free(&all);
    layer_free(l);
    return test_end();
}
