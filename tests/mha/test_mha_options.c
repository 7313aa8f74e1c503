/* A layer has the options of attention in every form: masks, windows, causality, lengths, offsets,
 * scale, lse, weights, any strides. With matrices of ones and zeros a layer computes attention of its inputs' groups of
 * channels, each product being a number times one and zeros, so it must give attention's own bits.
 */
#include "attention_case.h"
#include "guard.h"
#include "mask_words.h"
#include "mha_forms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t runs[MHA_FORMS];

static void check_form(const fovea_context *ctx, const attention_case *c, fovea_mha_inputs kind, const mha_form *f,
                       const inputs *in, const outputs *want) {
    outputs *got = outputs_make(c, c->layout);
    const fovea_attention_args args = case_args(in, got);
    mask_words said = case_said(ctx, c, &args);
    char text[512];
    mha_form_run(ctx, f, &said.desc, kind, said.args);
    outputs_same(got, want, "%s, inputs %d, mask %d: %s", f->name, (int)kind, (int)said.desc.mask,
                 case_text(c, text, sizeof text));
    mask_words_free(&said);
    outputs_free(got);
}

/* Shapes for which one input can serve for several, and with which all forms are possible. */
static void make_equal(attention_case *c, fovea_mha_inputs kind) {
    fovea_attention_desc *a = &c->desc;
    a->q_heads = a->kv_heads;
    a->value_dim = a->head_dim;
    if (kind == FOVEA_MHA_SELF) {
        a->q_len = a->kv_len = a->kv_len < 1 ? 1 : a->kv_len > 80 ? 80 : a->kv_len;
        c->kv_lens = c->kv_lens || c->q_lens;
    }
}

static void test_options(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "options");
    for (int64_t i = test_scaled(48); i > 0; i--) {
        attention_case c = case_random(&r, 200000);
        case_random_scores(&c, &r);
        const fovea_mha_inputs kind = mha_kind(i);
        if (c.values == VALUES_OVERFLOW) /* infinity times zero */
            c.values = VALUES_RANDOM;
        if (i % 2 == 0)
            c.layout = LAYOUT_BTHD;
        if (kind != FOVEA_MHA_SEPARATE || i % 4 != 0)
            make_equal(&c, kind);
        inputs *in = inputs_make(&c, &r);
        mha_inputs_of(kind, &in->args);
        for (int64_t b = 0; kind == FOVEA_MHA_SELF && c.q_lens && b < c.desc.batch; b++)
            if (in->kv_lens[b] > in->q_lens[b]) /* past which the one input is poison */
                in->kv_lens[b] = in->q_lens[b];
        outputs *want = outputs_make(&c, c.layout);
        if (case_run(x->scalar, NULL, &c, in, want))
            for (int f = 0; f < MHA_FORMS; f++)
                if (mha_form_fits(&mha_forms[f], &c.desc, c.layout == LAYOUT_BTHD || c.layout == LAYOUT_PACKED)) {
                    check_form(i % 5 < 2 ? x->three : x->one, &c, kind, &mha_forms[f], in, want);
                    runs[f]++;
                }
        outputs_free(want);
        inputs_free(in);
    }
    for (int f = 0; f < MHA_FORMS; f++)
        test_check(runs[f] > 0 || test_scaled(48) < 48, "%s: no case", mha_forms[f].name);
}

/* Each thing that happens to scores and each kind of mask, alone, in every form. */
static void test_each(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "each");
    for (int i = 0; i < CASE_FEATURES; i++) {
        attention_case c = case_plain(2, 2, 2, 270, 270, 4, 4);
        case_feature(&c, i);
        c.layout = LAYOUT_BTHD;
        c.weights = true;
        inputs *in = inputs_make(&c, &r);
        const fovea_mha_inputs kind = mha_kind(i);
        mha_inputs_of(kind, &in->args);
        outputs *want = outputs_make(&c, c.layout);
        if (case_run(x->scalar, NULL, &c, in, want))
            for (int f = 0; f < MHA_FORMS; f++)
                check_form(f % 2 ? x->three : x->one, &c, kind, &mha_forms[f], in, want);
        outputs_free(want);
        inputs_free(in);
    }
}

/* Self-attention: of each sequence the rows that a query or a key needs are read, and no others. */
static void test_self_lengths(const case_contexts *x) {
    enum { BATCH = 4, TOKENS = 9, HEADS = 2, DIM = 4, WIDTH = HEADS * DIM, ROWS = BATCH * TOKENS };
    static const int64_t q_lens[BATCH] = {9, 3, 0, 4}, kv_lens[BATCH] = {5, 7, 0, 2};
    rng r = rng_stream(test_seed(), "self");
    float data[ROWS * WIDTH], weight[3 * WIDTH * WIDTH], bias[WIDTH];
    float out[2][ROWS * WIDTH];
    rng_fill_normal(&r, data, ROWS * WIDTH);
    rng_fill_normal(&r, weight, 3 * WIDTH * WIDTH);
    rng_fill_normal(&r, bias, WIDTH);
    /* The last sequence's rows that are not read are not even there. */
    guard *named = guard_alloc("input", ((BATCH - 1) * TOKENS + 4) * WIDTH * sizeof(float), GUARD_END);
    memcpy(named->data, data, named->size);
    for (int b = 0; b < BATCH - 1; b++) {
        const int64_t read = q_lens[b] > kv_lens[b] ? q_lens[b] : kv_lens[b];
        poison_fill((float *)named->data + (b * TOKENS + read) * WIDTH, (TOKENS - read) * WIDTH);
    }
    float *ones = mha_identity(WIDTH);
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_attention_args args;
    fovea_mha_desc_init(&desc);
    fovea_mha_weights_init(&w);
    fovea_attention_args_init(&args);
    desc.q_features = desc.out_features = WIDTH;
    desc.biases = 1;
    fovea_attention_desc attention;
    fovea_attention_desc_init(&attention);
    desc.attention = &attention;
    attention.batch = BATCH;
    attention.q_heads = attention.kv_heads = HEADS;
    attention.q_len = attention.kv_len = TOKENS;
    attention.head_dim = attention.value_dim = DIM;
    w.q = fovea_matrix_in_out(weight, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    w.k = fovea_matrix_in_out(weight + WIDTH * WIDTH, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    w.v = fovea_matrix_in_out(weight + 2 * WIDTH * WIDTH, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    w.o = fovea_matrix_in_out(ones, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    w.o_bias = bias;
    args.q_lens = q_lens;
    args.kv_lens = kv_lens;
    for (int self = 0; self < 2; self++) {
        fovea_mha *mha;
        desc.inputs = self ? FOVEA_MHA_SELF : FOVEA_MHA_SEPARATE;
        args.q = fovea_tensor_bhtd(self ? named->data : data, FOVEA_DTYPE_F32, BATCH, 1, TOKENS, WIDTH);
        args.k = args.v = self ? (fovea_tensor){.data = NULL} : args.q;
        args.out = fovea_tensor_bhtd(out[self], FOVEA_DTYPE_F32, BATCH, 1, TOKENS, WIDTH);
        poison_fill(out[self], ROWS * WIDTH);
        if (test_check(fovea_mha_create(x->three, &desc, &w, &mha) == FOVEA_OK, "%s", fovea_error_detail())) {
            const size_t size = fovea_mha_workspace_size(mha);
            float *workspace = must_alloc((int64_t)size, 1);
            poison_fill(workspace, (int64_t)(size / sizeof(float))); /* not what the last layer left there */
            test_check(fovea_mha_execute(mha, &args, workspace, size) == FOVEA_OK, "%s", fovea_error_detail());
            free(workspace);
        }
        fovea_mha_destroy(mha);
    }
    test_same(out[1], out[0], ROWS * WIDTH, "one input against three");
    for (int b = 0; b < BATCH; b++) /* a row that is no query, or sees no key, has no head */
        for (int64_t t = kv_lens[b] == 0 ? 0 : q_lens[b]; t < TOKENS; t++)
            test_same(out[1] + (b * TOKENS + t) * WIDTH, bias, WIDTH, "row %" PRId64 " of %d: the bias", t, b);
    free(ones);
    guard_free(named);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_options", NULL);
    const case_contexts x = contexts_make();
    test_options(&x);
    test_each(&x);
    test_self_lengths(&x);
    contexts_free(&x);
    return test_end();
}
