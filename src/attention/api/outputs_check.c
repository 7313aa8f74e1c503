/* Checks of args.scores and args.summary (fovea/outputs.h). */
#include "attention/attention.h"
#include "core/core.h"

/* The tensors of a description. sums: entries of key_sums. */
typedef struct shape {
    int64_t batch, heads, queries, keys, sums;
} shape;

static shape shape_of(const fovea_attention_desc *d, const fovea_attention_args *args) {
    if (!d->packed)
        return (shape){d->batch, d->q_heads, d->q_len, d->kv_len, d->batch};
    if (d->page_keys > 0) /* keys count from each sequence's first */
        return (shape){1, d->q_heads, args->q.shape[2], d->kv_len, d->batch};
    return (shape){1, d->q_heads, args->q.shape[2], args->k.data ? args->k.shape[2] : 0, 1};
}

static fovea_status check_part(const char *name, int64_t first, int64_t count, int64_t all) {
    if (first >= 0 && count >= 0 && first <= all && count <= all - first)
        return FOVEA_OK;
    return fv_fail(FOVEA_ERROR_SHAPE, "scores: first_%s is %lld, and out has %lld: there are %lld", name,
                   (long long)first, (long long)count, (long long)all);
}

static fovea_status check_heads(const fovea_attention_scores *v, int64_t heads) {
    if (!v->heads)
        return check_part("head", v->first_head, v->out.shape[1], heads);
    if (v->first_head != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "scores: first_head is %lld, but heads lists them",
                       (long long)v->first_head);
    for (int64_t i = 0; i < v->out.shape[1]; i++) {
        if (v->heads[i] < 0 || v->heads[i] >= heads)
            return fv_fail(FOVEA_ERROR_SHAPE, "scores: heads[%lld] is %lld; it must be from 0 to %lld", (long long)i,
                           (long long)v->heads[i], (long long)heads - 1);
        if (i > 0 && v->heads[i] <= v->heads[i - 1])
            return fv_fail(FOVEA_ERROR_ARGUMENT, "scores: heads[%lld] is %lld after %lld: they must ascend",
                           (long long)i, (long long)v->heads[i], (long long)v->heads[i - 1]);
    }
    return FOVEA_OK;
}

static fovea_status check_scores(const fovea_attention_scores *v, const shape *s, fv_span *out, fv_span *heads) {
    fovea_status status = fv_struct_check(FV_STRUCT(fovea_attention_scores), v);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_score_kind, "scores: kind", (int)v->kind);
    if (status == FOVEA_OK && !v->out.data && s->batch > 0 && s->heads > 0 && s->queries > 0)
        status = fv_fail(FOVEA_ERROR_NULL, "scores is given, but its out is NULL");
    if (status != FOVEA_OK || !v->out.data)
        return status;
    const int64_t *n = v->out.shape;
    const fv_tensor_rule rule = {"scores", FOVEA_DTYPE_F32, {s->batch, n[1], n[2], n[3]}, true, false};
    status = check_part("query", v->first_query, n[2], s->queries);
    if (status == FOVEA_OK)
        status = check_part("key", v->first_key, n[3], s->keys);
    if (status == FOVEA_OK && n[1] < 0)
        status = check_part("head", 0, n[1], s->heads);
    if (status == FOVEA_OK)
        status = check_heads(v, s->heads);
    if (status == FOVEA_OK)
        status = fv_tensor_check(&v->out, &rule, out);
    *heads = fv_lens_span("heads of scores", v->heads, v->heads ? n[1] : 0);
    return status;
}

static fovea_status check_summary(const fovea_attention_summary *m, const fovea_attention_args *args, const shape *s,
                                  fv_span *spans) {
    fovea_status status = fv_struct_check(FV_STRUCT(fovea_attention_summary), m);
    if (status != FOVEA_OK)
        return status;
    if (m->key_sums.data && !args->lse.data && s->batch > 0 && s->heads > 0 && s->queries > 0)
        return fv_fail(FOVEA_ERROR_NULL, "lse is NULL, but summary asks for key_sums, which need it");
    if (!m->top_keys.data != !m->top_weights.data)
        return fv_fail(FOVEA_ERROR_NULL, "summary: %s is NULL, but %s is given",
                       m->top_keys.data ? "top_weights" : "top_keys", m->top_keys.data ? "top_keys" : "top_weights");
    const int64_t top = m->top_keys.shape[3];
    if (m->top_keys.data && top < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "top_keys has room for %lld keys; it must be at least 1", (long long)top);
    const struct {
        const fovea_tensor *tensor;
        fv_tensor_rule rule;
    } all[] = {{&m->key_sums, {"key_sums", FOVEA_DTYPE_F32, {s->sums, s->heads, 1, s->keys}, true, false}},
               {&m->entropy, {"entropy", FOVEA_DTYPE_F32, {s->batch, s->heads, s->queries, 1}, true, false}},
               {&m->max_weight, {"max_weight", FOVEA_DTYPE_F32, {s->batch, s->heads, s->queries, 1}, true, false}},
               {&m->top_keys, {"top_keys", FOVEA_DTYPE_I64, {s->batch, s->heads, s->queries, top}, true, false}},
               {&m->top_weights, {"top_weights", FOVEA_DTYPE_F32, {s->batch, s->heads, s->queries, top}, true, false}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == FOVEA_OK; i++)
        if (all[i].tensor->data)
            status = fv_tensor_check(all[i].tensor, &all[i].rule, &spans[i]);
    return status;
}

fovea_status fv_attention_check_outputs(const fovea_attention_desc *d, const fovea_attention_args *args,
                                        fv_span spans[FV_ATTENTION_OUTPUTS]) {
    const shape s = shape_of(d, args);
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < FV_ATTENTION_OUTPUTS; i++)
        spans[i] = (fv_span){"", 0, 0};
    if (args->scores)
        status = check_scores(args->scores, &s, &spans[0], &spans[FV_ATTENTION_OUTPUTS_WRITTEN]);
    if (status == FOVEA_OK && args->summary)
        status = check_summary(args->summary, args, &s, &spans[1]);
    return status;
}
