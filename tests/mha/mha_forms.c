/* Layers of ones and zeros (mha_forms.h). */
#include "mha_forms.h"

#include "attention_case.h"

#include <stdlib.h>
#include <string.h>

float *mha_identity(int64_t n) {
    float *m = must_alloc(n * n, sizeof *m);
    memset(m, 0, (size_t)(n * n) * sizeof *m);
    for (int64_t i = 0; i < n; i++)
        m[i * n + i] = 1.0f;
    return m;
}

const mha_form mha_forms[MHA_FORMS] = {
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

fovea_mha_inputs mha_kind(int64_t i) {
    return i % 3 == 0 ? FOVEA_MHA_SEPARATE : i % 3 == 1 ? FOVEA_MHA_SELF : FOVEA_MHA_CROSS;
}

void mha_inputs_of(fovea_mha_inputs kind, fovea_attention_args *args) {
    if (kind == FOVEA_MHA_SELF)
        args->k = args->q;
    if (kind != FOVEA_MHA_SEPARATE)
        args->v = args->k;
}

bool mha_form_fits(const mha_form *f, const fovea_attention_desc *a, bool rows) {
    const bool equal = a->q_heads == a->kv_heads && a->head_dim == a->value_dim;
    if (f->rows && (!rows || a->q_heads * a->head_dim * a->kv_heads * a->head_dim > 40000))
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

void mha_form_run(const fovea_context *ctx, const mha_form *f, const fovea_attention_desc *a, fovea_mha_inputs kind,
                  fovea_attention_args args) {
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
    desc.q_tokens = a->packed ? args.q.shape[2] : 0;
    desc.kv_tokens = a->packed ? args.k.shape[2] : 0;
    float *ones[] = {mha_identity(q), mha_identity(k), mha_identity(v), mha_identity(o), NULL};
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
    if (desc.inputs == FOVEA_MHA_SELF)
        args.k.data = NULL;
    if (desc.inputs != FOVEA_MHA_SEPARATE)
        args.v.data = NULL;
    test_check(mha_once(ctx, &desc, &w, &args) == FOVEA_OK, "%s: %s", f->name, fovea_error_detail());
    for (int i = 0; i < 5; i++)
        free(ones[i]);
}
