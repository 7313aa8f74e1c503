/* test-mha-options: what attention can do, a layer can do in every form: masks, windows, causality, lengths, offsets,
 * scale, lse, weights, any strides. With matrices of ones and zeros a layer computes attention of its inputs' groups of
 * channels, each product being a number times one and zeros, so it must give attention's own bits.
 */
#include "attention_case.h"
#include "guard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* [n, n], ones on the diagonal. Freed by the caller. */
static float *identity(int64_t n) {
    float *m = must_alloc(n * n, sizeof *m);
    memset(m, 0, (size_t)(n * n) * sizeof *m);
    for (int64_t i = 0; i < n; i++)
        m[i * n + i] = 1.0f;
    return m;
}

typedef struct form {
    const char *name;
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_order order;
    bool fold;   /* values, always */
    bool output; /* W^O, too */
    bool rows;   /* reads an input as whole rows */
} form;

static const form forms[] = {
    {.name = "factored", .form = FOVEA_MHA_FACTORED, .output = true},
    {.name = "factored, no W^O", .form = FOVEA_MHA_FACTORED},
    {.name = "factored, values folded", .form = FOVEA_MHA_FACTORED, .fold = true, .output = true, .rows = true},
    {.name = "merged queries", .form = FOVEA_MHA_MERGED, .output = true, .rows = true},
    {.name = "merged queries, values folded", .form = FOVEA_MHA_MERGED, .fold = true, .output = true, .rows = true},
    {.name = "merged keys, no W^O", .form = FOVEA_MHA_MERGED, .merge = FOVEA_MHA_MERGE_KEYS, .rows = true},
    {.name = "folded", .form = FOVEA_MHA_FOLDED, .output = true},
    {.name = "folded, values too", .form = FOVEA_MHA_FOLDED, .fold = true, .output = true, .rows = true},
    {.name = "projected", .form = FOVEA_MHA_PROJECTED, .output = true},
    {.name = "projected, no W^O", .form = FOVEA_MHA_PROJECTED},
    {.name = "tied", .form = FOVEA_MHA_TIED, .output = true},
    {.name = "tied, no W^O", .form = FOVEA_MHA_TIED},
    {.name = "fused", .form = FOVEA_MHA_FUSED, .output = true},
    {.name = "fused, grouped, no W^O", .form = FOVEA_MHA_FUSED, .order = FOVEA_MHA_ORDER_GROUPED},
    {.name = "fused, values folded", .form = FOVEA_MHA_FUSED, .fold = true, .output = true, .rows = true},
};
enum { FORMS = sizeof forms / sizeof forms[0] };
static int64_t runs[FORMS];

/* Whether a form is possible with matrices of ones and zeros, and not too slow. */
static bool form_fits(const form *f, const attention_case *c) {
    const fovea_attention_desc *a = &c->desc;
    const bool equal = a->q_heads == a->kv_heads && a->head_dim == a->value_dim;
    if (f->rows && ((c->layout != LAYOUT_BTHD && c->layout != LAYOUT_PACKED) ||
                    a->q_heads * a->head_dim * a->kv_heads * a->head_dim > 40000))
        return false;
    if (f->form == FOVEA_MHA_MERGED && f->merge == FOVEA_MHA_MERGE_KEYS)
        return a->q_heads == a->kv_heads;
    return equal || (f->form != FOVEA_MHA_TIED && f->form != FOVEA_MHA_FUSED);
}

/* [n, 3 n]: three identities side by side, or of each head side by side. Freed by the caller. */
static float *three_identities(int64_t n, int64_t heads, fovea_mha_order order) {
    const int64_t channels = n / heads;
    float *m = must_alloc(3 * n * n, sizeof *m);
    memset(m, 0, (size_t)(3 * n * n) * sizeof *m);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t h = j / channels;
            const int64_t at = order == FOVEA_MHA_ORDER_QKV ? i * n + j : (3 * h + i) * channels + j % channels;
            m[j * 3 * n + at] = 1.0f;
        }
    return m;
}

static void check_form(const fovea_context *ctx, const attention_case *c, fovea_mha_inputs kind, const form *f,
                       const inputs *in, const outputs *want) {
    const fovea_attention_desc *a = &c->desc;
    const int64_t q = a->q_heads * a->head_dim, k = a->kv_heads * a->head_dim, v = a->kv_heads * a->value_dim;
    const int64_t o = a->q_heads * a->value_dim;
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_mha_desc_init(&desc);
    fovea_mha_weights_init(&w);
    desc.form = f->form;
    desc.inputs = f->form == FOVEA_MHA_PROJECTED ? FOVEA_MHA_SEPARATE : kind;
    desc.merge = f->merge;
    desc.fold_values = f->fold ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
    desc.q_features = q;
    desc.k_features = k;
    desc.v_features = v;
    desc.out_features = f->output ? o : 0;
    desc.attention = a;
    float *ones[] = {identity(q), identity(k), identity(v), identity(o), NULL};
    w.q = fovea_matrix_in_out(ones[0], FOVEA_DTYPE_F32, q, q);
    w.k = fovea_matrix_in_out(ones[1], FOVEA_DTYPE_F32, k, k);
    w.v = fovea_matrix_in_out(ones[2], FOVEA_DTYPE_F32, v, v);
    w.o = fovea_matrix_in_out(ones[3], FOVEA_DTYPE_F32, o, o);
    if (f->form == FOVEA_MHA_FOLDED) {
        w.outer_q = w.q;
        w.outer_v = w.v;
    }
    if (f->form == FOVEA_MHA_FUSED) {
        w.fused = fovea_matrix_in_out(ones[4] = three_identities(q, a->q_heads, f->order), FOVEA_DTYPE_F32, q, 3 * q);
        w.order = f->order;
    }
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    if (desc.inputs == FOVEA_MHA_SELF)
        args.k.data = NULL;
    if (desc.inputs != FOVEA_MHA_SEPARATE)
        args.v.data = NULL;
    fovea_mha *mha;
    char text[512];
    if (test_check(fovea_mha_create(ctx, &desc, &w, &mha) == FOVEA_OK, "%s: %s", f->name, fovea_error_detail())) {
        test_check(fovea_mha_execute(mha, &args, NULL, 0) == FOVEA_OK, "%s: %s", f->name, fovea_error_detail());
        outputs_same(got, want, "%s, inputs %d: %s", f->name, (int)desc.inputs, case_text(c, text, sizeof text));
        fovea_mha_destroy(mha);
    }
    outputs_free(got);
    for (int i = 0; i < 5; i++)
        free(ones[i]);
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
    static const fovea_mha_inputs kinds[] = {FOVEA_MHA_SEPARATE, FOVEA_MHA_SELF, FOVEA_MHA_CROSS};
    rng r = rng_stream(test_seed(), "options");
    for (int64_t i = test_scaled(48); i > 0; i--) {
        attention_case c = case_random(&r, 200000);
        case_random_scores(&c, &r);
        const fovea_mha_inputs kind = kinds[i % 3];
        if (c.values == VALUES_OVERFLOW) /* infinity times zero */
            c.values = VALUES_RANDOM;
        if (i % 2 == 0)
            c.layout = LAYOUT_BTHD;
        if (kind != FOVEA_MHA_SEPARATE || i % 4 != 0)
            make_equal(&c, kind);
        inputs *in = inputs_make(&c, &r);
        if (kind == FOVEA_MHA_SELF)
            in->args.k = in->args.q;
        if (kind != FOVEA_MHA_SEPARATE)
            in->args.v = in->args.k;
        for (int64_t b = 0; kind == FOVEA_MHA_SELF && c.q_lens && b < c.desc.batch; b++)
            if (in->kv_lens[b] > in->q_lens[b]) /* past which the one input is poison */
                in->kv_lens[b] = in->q_lens[b];
        outputs *want = outputs_make(&c, c.layout);
        if (case_run(x->scalar, NULL, &c, in, want))
            for (int f = 0; f < FORMS; f++)
                if (form_fits(&forms[f], &c)) {
                    check_form(i % 5 < 2 ? x->three : x->one, &c, kind, &forms[f], in, want);
                    runs[f]++;
                }
        outputs_free(want);
        inputs_free(in);
    }
    for (int f = 0; f < FORMS; f++)
        test_check(runs[f] > 0 || test_scaled(48) < 48, "%s: no case", forms[f].name);
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
    float *ones = identity(WIDTH);
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
    test_begin(argc, argv, "mha-options", NULL);
    const case_contexts x = contexts_make();
    test_options(&x);
    test_self_lengths(&x);
    contexts_free(&x);
    return test_end();
}
