/* Layers of packed sequences. Layers of ones and zeros give, in every form, the bits of attention of each
 * sequence; others those of a layer called for each. Tokens of no sequence hold NaN, and outputs are not written there.
 */
#include "attention_case.h"
#include "guard.h"
#include "mha_forms.h"
#include "ragged.h"

#include <stdio.h>
#include <string.h>

static int64_t runs[MHA_FORMS];

/* Are the heads of a token next to each other in memory? */
static bool whole_rows(const placed *p) { return p->t.shape[1] == 1 || p->t.stride[1] == p->t.shape[3]; }

static void check_forms(const fovea_context *ctx, place_kind place, const attention_case *c, fovea_mha_inputs kind,
                        const inputs *in, const outputs *want, rng *r) {
    char text[700];
    ragged x;
    ragged_make(&x, place, c, in, 0, c->desc.batch, r);
    if (kind == FOVEA_MHA_SELF)
        x.desc.q_len = x.desc.kv_len;
    const bool rows = whole_rows(&x.q) && whole_rows(&x.k) && whole_rows(&x.v);
    for (int f = 0; f < MHA_FORMS; f++) {
        if (!mha_form_fits(&mha_forms[f], &x.desc, rows) ||
            (mha_forms[f].form == FOVEA_MHA_PROJECTED && kind != FOVEA_MHA_SEPARATE))
            continue;
        const int at = snprintf(text, sizeof text, "%s, inputs %d: ", mha_forms[f].name, (int)kind);
        case_text(c, text + at, sizeof text - (size_t)at);
        ragged_clear(&x);
        mha_form_run(ctx, &mha_forms[f], &x.desc, kind, x.args);
        ragged_check(&x, want, text);
        runs[f]++;
    }
    ragged_free(&x);
}

static void test_random(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "packed layers");
    for (int64_t i = 0, cases = test_scaled(40); i < cases; i++) {
        attention_case c = case_random(&r, 100000);
        case_random_scores(&c, &r);
        const fovea_mha_inputs kind = mha_kind(i);
        c.q_lens = c.kv_lens = true;
        if (c.values == VALUES_OVERFLOW) /* infinity times zero */
            c.values = VALUES_RANDOM;
        if (kind != FOVEA_MHA_SEPARATE || i % 2) {
            c.desc.q_heads = c.desc.kv_heads;
            c.desc.value_dim = c.desc.head_dim;
        }
        int64_t lens[MOST_BATCH];
        if (kind == FOVEA_MHA_SELF)
            c.desc.q_len = c.desc.kv_len = c.desc.kv_len > 80 ? 80 : c.desc.kv_len;
        for (int64_t b = 0; b < c.desc.batch; b++)
            lens[b] = rng_between(&r, 0, c.desc.kv_len);
        const int64_t *same = kind == FOVEA_MHA_SELF ? lens : NULL;
        inputs *in = inputs_make_given(&c, &r, same, same, NULL);
        mha_inputs_of(kind, &in->args);
        outputs *want = outputs_make(&c, c.layout);
        if (case_run(x->scalar, NULL, &c, in, want)) {
            check_forms(i % 2 ? x->three : x->one, PLACE_PACKED, &c, kind, in, want, &r);
            if (kind != FOVEA_MHA_SELF) /* whose gaps are not those of the keys here */
                check_forms(i % 2 ? x->one : x->three, PLACE_GAPS, &c, kind, in, want, &r);
        }
        outputs_free(want);
        inputs_free(in);
    }
    for (int f = 0; f < MHA_FORMS; f++)
        test_check(runs[f] > 0 || test_scaled(40) < 40, "%s: no case", mha_forms[f].name);
}

enum { BATCH = 5, TOKENS = 47, HEADS = 2, DIM = 4, WIDTH = HEADS * DIM, OUT = 6, LONGEST = 20 };

/* A layer of any weights. */
typedef struct any_layer {
    fovea_mha_desc desc;
    fovea_attention_desc attention;
    fovea_mha_weights w;
    float weight[3 * WIDTH * WIDTH + WIDTH * OUT], bias[3 * WIDTH + OUT];
} any_layer;

static void layer_draw(any_layer *l, rng *r) {
    fovea_mha_desc_init(&l->desc);
    fovea_mha_weights_init(&l->w);
    fovea_attention_desc_init(&l->attention);
    rng_fill_normal(r, l->weight, sizeof l->weight / sizeof(float));
    rng_fill_normal(r, l->bias, sizeof l->bias / sizeof(float));
    l->desc.q_features = WIDTH;
    l->desc.out_features = OUT;
    l->desc.biases = 1;
    l->desc.attention = &l->attention;
    l->attention.q_heads = l->attention.kv_heads = HEADS;
    l->attention.head_dim = l->attention.value_dim = DIM;
    l->attention.causal = FOVEA_CAUSAL_TOP_LEFT;
    l->attention.batch = BATCH;
    l->attention.q_len = l->attention.kv_len = LONGEST;
    l->attention.packed = 1;
    fovea_matrix *const m[] = {&l->w.q, &l->w.k, &l->w.v};
    const void **const bias[] = {&l->w.q_bias, &l->w.k_bias, &l->w.v_bias};
    for (int i = 0; i < 3; i++) {
        *m[i] = fovea_matrix_in_out(l->weight + i * WIDTH * WIDTH, FOVEA_DTYPE_F32, WIDTH, WIDTH);
        *bias[i] = l->bias + i * WIDTH;
    }
    l->w.o = fovea_matrix_in_out(l->weight + 3 * WIDTH * WIDTH, FOVEA_DTYPE_F32, WIDTH, OUT);
    l->w.o_bias = l->bias + 3 * WIDTH;
}

static const int64_t q_at[BATCH + 1] = {3, 12, 20, 20, 31, 42}, kv_at[BATCH + 1] = {1, 14, 18, 23, 33, 44};
static const int64_t q_lens[BATCH] = {9, 3, 0, 11, 5}, kv_lens[BATCH] = {10, 2, 2, 7, 3};

/* Weights and key_sums of a layer whose token axes are that long. */
typedef struct looked_at {
    float lse[HEADS * TOKENS], weights[HEADS * TOKENS * TOKENS], key_sums[HEADS * TOKENS];
    fovea_attention_scores scores;
    fovea_attention_summary summary;
} looked_at;

static void look(looked_at *l, fovea_attention_args *args, int64_t queries, int64_t keys) {
    memset(l, 0x55, sizeof *l);
    fovea_attention_scores_init(&l->scores);
    fovea_attention_summary_init(&l->summary);
    l->scores.kind = FOVEA_SCORES_WEIGHTS;
    l->scores.out = fovea_tensor_bhtd(l->weights, FOVEA_DTYPE_F32, 1, HEADS, queries, keys);
    l->summary.key_sums = fovea_tensor_bhtd(l->key_sums, FOVEA_DTYPE_F32, 1, HEADS, 1, keys);
    args->lse = fovea_tensor_bhtd(l->lse, FOVEA_DTYPE_F32, 1, HEADS, queries, 1);
    args->scores = &l->scores;
    args->summary = &l->summary;
}

/* Sequence b of the packed call against a call for it alone. */
static void check_look(const looked_at *packed, const looked_at *alone, int64_t q_first, int64_t queries,
                       int64_t kv_first, int64_t keys) {
    for (int64_t h = 0; h < HEADS; h++) {
        for (int64_t i = 0; i < queries; i++)
            test_same(packed->weights + (h * TOKENS + q_first + i) * TOKENS + kv_first,
                      alone->weights + (h * queries + i) * keys, keys, "weights of query %d", (int)(q_first + i));
        test_same(packed->key_sums + h * TOKENS + kv_first, alone->key_sums + h * keys, keys, "key_sums from %d on",
                  (int)kv_first);
    }
}

/* One input of queries and keys that lie anywhere: what either needs is read, and nothing else. */
static void test_self(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "self");
    any_layer l;
    layer_draw(&l, &r);
    l.desc.q_tokens = TOKENS;
    float data[TOKENS * WIDTH], out[TOKENS * OUT], want[TOKENS * OUT], one[LONGEST * OUT];
    bool read[TOKENS] = {false};
    rng_fill_normal(&r, data, TOKENS * WIDTH);
    for (int b = 0; b < BATCH; b++) {
        for (int64_t t = q_at[b]; t < q_at[b] + q_lens[b]; t++)
            read[t] = true;
        for (int64_t t = kv_at[b]; t < kv_at[b] + kv_lens[b]; t++)
            read[t] = true;
    }
    int unread = 0;
    for (int t = 0; t < TOKENS; t++)
        if (!read[t]) {
            poison_fill(data + t * WIDTH, WIDTH);
            unread++;
        }
    test_check(unread > 5, "%d tokens are not read", unread);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, 1, TOKENS, WIDTH);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, TOKENS, OUT);
    args.q_cu_seqlens = q_at;
    args.kv_cu_seqlens = kv_at;
    args.q_lens = q_lens;
    args.kv_lens = kv_lens;
    static looked_at packed_look, look_alone;
    look(&packed_look, &args, TOKENS, TOKENS);
    for (int i = 0; i < TOKENS * OUT; i++)
        out[i] = want[i] = -7;

    fovea_mha *mha;
    if (!test_check(fovea_mha_create(x->three, &l.desc, &l.w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    const size_t size = fovea_mha_workspace_size(mha);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    poison_fill(workspace->data, (int64_t)(size / sizeof(float)));
    check_status("packed", fovea_mha_execute(mha, &args, workspace->data, size), FOVEA_OK, NULL);
    guard_free(workspace);

    l.attention.packed = 0;
    l.attention.batch = 1;
    l.desc.q_tokens = 0;
    l.desc.inputs = FOVEA_MHA_CROSS;
    for (int b = 0; b < BATCH; b++) {
        l.attention.q_len = q_lens[b];
        l.attention.kv_len = kv_lens[b];
        fovea_attention_args alone;
        fovea_attention_args_init(&alone);
        alone.q = fovea_tensor_bhtd(data + q_at[b] * WIDTH, FOVEA_DTYPE_F32, 1, 1, q_lens[b], WIDTH);
        alone.k = fovea_tensor_bhtd(data + kv_at[b] * WIDTH, FOVEA_DTYPE_F32, 1, 1, kv_lens[b], WIDTH);
        alone.out = fovea_tensor_bhtd(one, FOVEA_DTYPE_F32, 1, 1, q_lens[b], OUT);
        look(&look_alone, &alone, q_lens[b], kv_lens[b]);
        check_status("alone", mha_once(x->scalar, &l.desc, &l.w, &alone), FOVEA_OK, NULL);
        check_look(&packed_look, &look_alone, q_at[b], q_lens[b], kv_at[b], kv_lens[b]);
        memcpy(want + q_at[b] * OUT, one, (size_t)(q_lens[b] * OUT) * sizeof *one);
    }
    test_same(out, want, TOKENS * OUT, "packed against a call for each sequence");

    /* Another shape of the same weights: fewer and longer sequences on the same axis. */
    static const int64_t at[] = {0, 31, 47};
    fovea_mha *other;
    check_status("reshape", fovea_mha_reshape(mha, 2, 31, 31, &other), FOVEA_OK, NULL);
    rng_fill_normal(&r, data, TOKENS * WIDTH);
    args.q_cu_seqlens = args.kv_cu_seqlens = at;
    args.q_lens = args.kv_lens = NULL;
    args.scores = NULL;
    args.summary = NULL;
    check_status("reshaped", fovea_mha_execute(other, &args, NULL, 0), FOVEA_OK, NULL);
    for (int b = 0; b < 2; b++) {
        const int64_t n = at[b + 1] - at[b];
        l.attention.q_len = l.attention.kv_len = n;
        fovea_attention_args alone;
        fovea_attention_args_init(&alone);
        alone.q = alone.k = fovea_tensor_bhtd(data + at[b] * WIDTH, FOVEA_DTYPE_F32, 1, 1, n, WIDTH);
        alone.out = fovea_tensor_bhtd(want + at[b] * OUT, FOVEA_DTYPE_F32, 1, 1, n, OUT);
        check_status("alone", mha_once(x->scalar, &l.desc, &l.w, &alone), FOVEA_OK, NULL);
    }
    test_same(out, want, TOKENS * OUT, "reshaped");
    fovea_mha_destroy(other);
    fovea_mha_destroy(mha);
}

static void refuse(const char *what, const fovea_mha *mha, const fovea_attention_args *args, fovea_status status,
                   const char *words) {
    memset(args->out.data, 0, TOKENS * OUT * sizeof(float));
    check_status(what, fovea_mha_execute(mha, args, NULL, 0), status, words);
    for (int i = 0; i < TOKENS * OUT; i++)
        if (((const float *)args->out.data)[i] != 0) {
            test_check(false, "%s: out was written", what);
            break;
        }
}

static void test_refused(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "refused");
    any_layer l;
    layer_draw(&l, &r);
    fovea_mha *mha = NULL;
    fovea_mha_costs cost, fewer;
    fovea_mha_costs_init(&cost);
    fovea_mha_costs_init(&fewer);
    check_status("plain", fovea_mha_create(x->one, &l.desc, &l.w, &mha), FOVEA_OK, NULL);
    const size_t all = fovea_mha_workspace_size(mha);
    fovea_mha_destroy(mha);
    check_status("cost", fovea_mha_desc_costs(&l.desc, &cost), FOVEA_OK, NULL);
    l.desc.q_tokens = TOKENS;
    check_status("cost", fovea_mha_desc_costs(&l.desc, &fewer), FOVEA_OK, NULL);
    test_check(cost.projection_flops == 2.0 * BATCH * LONGEST * WIDTH * 3 * WIDTH &&
                   fewer.projection_flops == 2.0 * TOKENS * WIDTH * 3 * WIDTH,
               "projections: %g and %g flops", cost.projection_flops, fewer.projection_flops);
    l.desc.kv_tokens = TOKENS - 1;
    check_status("other keys", fovea_mha_create(x->one, &l.desc, &l.w, &mha), FOVEA_ERROR_SHAPE, "kv_tokens 46|SELF");
    l.desc.kv_tokens = -1;
    check_status("kv_tokens -1", fovea_mha_create(x->one, &l.desc, &l.w, &mha), FOVEA_ERROR_SHAPE, "kv_tokens is -1");
    l.desc.kv_tokens = 0;
    l.attention.packed = 0;
    check_status("not packed", fovea_mha_create(x->one, &l.desc, &l.w, &mha), FOVEA_ERROR_ARGUMENT,
                 "q_tokens is 47|packed");
    l.attention.packed = 1;
    check_status("good", fovea_mha_create(x->one, &l.desc, &l.w, &mha), FOVEA_OK, NULL);
    test_check(fovea_mha_workspace_size(mha) < all, "workspace: %zu for fewer tokens, %zu for more",
               fovea_mha_workspace_size(mha), all);

    float data[(TOKENS + 1) * WIDTH] = {0}, out[TOKENS * OUT];
    fovea_attention_args good, args;
    fovea_attention_args_init(&good);
    good.q = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, 1, TOKENS, WIDTH);
    good.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, TOKENS, OUT);
    good.q_cu_seqlens = q_at;
    good.kv_cu_seqlens = kv_at;
    args = good;
    args.q.shape[2] = TOKENS + 1;
    refuse("more tokens", mha, &args, FOVEA_ERROR_SHAPE, "q has 48 tokens|47");
    args.q.shape[2] = -1;
    refuse("-1 tokens", mha, &args, FOVEA_ERROR_SHAPE, "q has -1 tokens");
    args = good;
    args.q.shape[0] = 2;
    refuse("batch 2", mha, &args, FOVEA_ERROR_SHAPE, "q");
    args = good;
    args.out.shape[2] = TOKENS - 1;
    refuse("fewer rows", mha, &args, FOVEA_ERROR_SHAPE, "out");
    args = good;
    args.kv_cu_seqlens = NULL;
    refuse("no kv_cu_seqlens", mha, &args, FOVEA_ERROR_NULL, "kv_cu_seqlens");
    args = good;
    args.kv_starts = kv_at;
    refuse("starts", mha, &args, FOVEA_ERROR_ARGUMENT, "kv_starts");
    static const int64_t far[BATCH + 1] = {3, 12, 20, 20, 31, TOKENS + 1};
    args = good;
    args.q_cu_seqlens = far;
    refuse("past the end", mha, &args, FOVEA_ERROR_SHAPE, "q_cu_seqlens[5] is 48");
    args = good;
    args.q_cu_seqlens = (const int64_t *)(const void *)out;
    refuse("alias", mha, &args, FOVEA_ERROR_ALIAS, "q_cu_seqlens");

    /* No token at all. */
    static const int64_t nothing[BATCH + 1] = {0};
    fovea_attention_args_init(&args);
    args.q_cu_seqlens = args.kv_cu_seqlens = nothing;
    check_status("no tokens", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_mha_destroy(mha);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_packed", NULL);
    const case_contexts x = contexts_make();
    test_random(&x);
    test_self(&x);
    test_refused(&x);
    contexts_free(&x);
    return test_end();
}
