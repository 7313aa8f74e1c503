/* The sizes and costs that follow from a layer's description. */
#include "attention/attention.h"
#include "core/core.h"
#include "mha/mha.h"

int fv_mha_input(const fovea_mha_desc *desc, int role) {
    return desc->inputs == FOVEA_MHA_SELF    ? FV_MHA_Q
           : desc->inputs == FOVEA_MHA_CROSS ? (role == FV_MHA_Q ? FV_MHA_Q : FV_MHA_K)
                                             : role;
}

/* Flops of everything that values pass through. */
static double value_flops(const fovea_attention_desc *d, const fv_mha_shape *s, bool fold) {
    const double features = (double)s->role[FV_MHA_V].features, d_v = fold ? features : (double)s->d_v;
    const double rows = (double)d->batch * (double)d->q_len, keys = (double)d->batch * (double)d->kv_len;
    const double heads = (double)s->heads;
    return (fold ? 0.0 : 2.0 * keys * features * d_v * (double)s->kv_heads) +
           2.0 * (double)d->batch * heads * fv_attention_pairs(d) * d_v + 2.0 * rows * heads * d_v * (double)s->o_out;
}

static fovea_status check_enums(const fovea_mha_desc *d) {
    const struct {
        fv_enum type;
        const char *field;
        int value;
    } all[] = {{FV_ENUM_mha_form, "form", (int)d->form},
               {FV_ENUM_mha_inputs, "inputs", (int)d->inputs},
               {FV_ENUM_mha_merge, "merge", (int)d->merge},
               {FV_ENUM_mha_fold, "fold_values", (int)d->fold_values},
               {FV_ENUM_arithmetic, "quantized_arithmetic", (int)d->quantized_arithmetic}};
    fovea_status status = FOVEA_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == FOVEA_OK; i++)
        status = fv_enum_check(all[i].type, all[i].field, all[i].value);
    return status;
}

static fovea_status check_features(const fovea_mha_desc *d, const fv_mha_shape *s) {
    static const char *const names[] = {"q_features", "k_features", "v_features"};
    for (int i = 0; i < FV_MHA_ROLES && d->form != FOVEA_MHA_PROJECTED; i++) {
        if (s->role[i].features < 1 || s->role[i].features > FV_SIZE_LIMIT)
            return fv_fail(s->role[i].features < 1 ? FOVEA_ERROR_SHAPE : FOVEA_ERROR_OVERFLOW,
                           "%s is %lld: out of range", names[i], (long long)s->role[i].features);
        if (s->role[i].features != s->role[fv_mha_input(d, i)].features)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s is %lld, but its input has %lld", names[i],
                           (long long)s->role[i].features, (long long)s->role[fv_mha_input(d, i)].features);
    }
    if (d->out_features < 0 || d->out_features > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "out_features is %lld: out of range", (long long)d->out_features);
    if (d->inputs == FOVEA_MHA_SELF && d->attention->page_keys == 0 && d->attention->q_len != d->attention->kv_len)
        return fv_fail(FOVEA_ERROR_SHAPE, "q_len %lld and kv_len %lld differ, but inputs is FOVEA_MHA_SELF",
                       (long long)d->attention->q_len, (long long)d->attention->kv_len);
    return FOVEA_OK;
}

/* Operands of attention have the type of the input that they are made from. */
static fovea_status check_dtypes(const fovea_mha_desc *d, const fv_mha_shape *s) {
    static const char *const names[] = {"dtype", "k_dtype", "v_dtype"};
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const int input = fv_mha_input(d, i);
        if (s->role[i].dtype != s->role[input].dtype)
            return fv_fail(FOVEA_ERROR_DTYPE,
                           "attention: %s is %s and %s is %s, but inputs is %s: they are made of one input", names[i],
                           fv_enum_name(FV_ENUM_dtype, (int)s->role[i].dtype), names[input],
                           fv_enum_name(FV_ENUM_dtype, (int)s->role[input].dtype),
                           fv_enum_name(FV_ENUM_mha_inputs, (int)d->inputs));
    }
    return FOVEA_OK;
}

/* Layers over a cache: what is kept of a token must be its heads' keys and values. */
static fovea_status check_cached(const fovea_mha_desc *d) {
    if (d->attention->page_keys == 0)
        return FOVEA_OK;
    if (d->inputs != FOVEA_MHA_SELF || d->form == FOVEA_MHA_MERGED || d->form == FOVEA_MHA_TIED)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "attention: page_keys is %lld: a layer over a cache has inputs FOVEA_MHA_SELF and is factored, "
                       "folded or fused",
                       (long long)d->attention->page_keys);
    return d->attention->page_keys == FOVEA_KV_PAGE_KEYS
               ? FOVEA_OK
               : fv_fail(FOVEA_ERROR_UNSUPPORTED,
                         "attention: page_keys is %lld: layers take pages of a cache, of %d keys",
                         (long long)d->attention->page_keys, FOVEA_KV_PAGE_KEYS);
}

static fovea_status resolve_form(const fovea_mha_desc *d, bool v_bias, fv_mha_shape *s) {
    fv_mha_role *q = &s->role[FV_MHA_Q], *k = &s->role[FV_MHA_K], *v = &s->role[FV_MHA_V];
    const bool raw = d->form == FOVEA_MHA_PROJECTED;
    q->projected = k->projected = v->projected = !raw;
    if (raw && d->inputs != FOVEA_MHA_SEPARATE)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "inputs is %s, but form FOVEA_MHA_PROJECTED takes FOVEA_MHA_SEPARATE",
                       fv_enum_name(FV_ENUM_mha_inputs, (int)d->inputs));
    if (d->form == FOVEA_MHA_FUSED && d->inputs != FOVEA_MHA_SELF &&
        (k->features != q->features || v->features != q->features))
        return fv_fail(FOVEA_ERROR_SHAPE, "a fused weight needs inputs with equal numbers of features");
    if (d->form == FOVEA_MHA_TIED) {
        if (s->d_k != s->d_v || s->heads != s->kv_heads || q->features != k->features || q->features != v->features)
            return fv_fail(FOVEA_ERROR_SHAPE, "one W for all needs kv_heads = q_heads, value_dim = head_dim and inputs "
                                              "of the same features");
        for (int i = 0; i < FV_MHA_ROLES; i++)
            s->role[i].same_as = fv_mha_input(d, i);
    }
    if (d->form == FOVEA_MHA_MERGED) {
        fv_mha_role *mapped = d->merge == FOVEA_MHA_MERGE_QUERIES ? q : k, *other = mapped == q ? k : q;
        mapped->channels = other->channels = other->features;
        mapped->heads = mapped == q ? s->heads : s->kv_heads;
        other->projected = false;
        other->shared = true;
        if (mapped == k && s->heads != s->kv_heads)
            return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                           "merged keys need kv_heads = q_heads: kv_heads is %lld, q_heads is %lld",
                           (long long)s->kv_heads, (long long)s->heads);
    }
    const bool possible = s->o_out > 0 && d->attention->page_keys == 0 && !v_bias && !raw && d->form != FOVEA_MHA_TIED;
    if (d->fold_values == FOVEA_MHA_FOLD_ALWAYS && !possible)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "values can be folded into W^O only if both are matrices and v_bias is absent");
    s->fold = possible && (d->fold_values == FOVEA_MHA_FOLD_ALWAYS ||
                           (d->fold_values == FOVEA_MHA_FOLD_CHEAPER &&
                            value_flops(d->attention, s, true) < value_flops(d->attention, s, false)));
    if (s->fold) {
        v->projected = false;
        v->shared = true;
        v->channels = v->features;
    }
    int64_t columns;
    for (int i = 0; i < FV_MHA_ROLES; i++)
        if (!fv_multiply(s->heads, s->role[i].channels, &columns))
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld heads of %lld channels are too large", (long long)s->heads,
                           (long long)s->role[i].channels);
    s->o_in = s->heads * v->channels;
    return FOVEA_OK;
}

/* Completes the numbers of packed tokens. */
static fovea_status read_tokens(fovea_mha_desc *d, const fovea_attention_desc *a) {
    const struct {
        const char *name;
        int64_t tokens;
    } all[] = {{"q_tokens", d->q_tokens}, {"kv_tokens", d->kv_tokens}};
    for (int i = 0; i < 2; i++) {
        if (all[i].tokens != 0 && !a->packed)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is %lld, but packed of the attention is 0", all[i].name,
                           (long long)all[i].tokens);
        if (all[i].tokens < 0 || all[i].tokens > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s is %lld: out of range", all[i].name, (long long)all[i].tokens);
    }
    if (d->inputs == FOVEA_MHA_SELF && d->kv_tokens == 0)
        d->kv_tokens = d->q_tokens;
    return d->inputs == FOVEA_MHA_SELF && d->kv_tokens != d->q_tokens
               ? fv_fail(FOVEA_ERROR_SHAPE, "q_tokens %lld and kv_tokens %lld differ, but inputs is FOVEA_MHA_SELF",
                         (long long)d->q_tokens, (long long)d->kv_tokens)
               : FOVEA_OK;
}

fovea_status fv_mha_read_desc(const fovea_mha_desc *given, fovea_mha_desc *d, fovea_attention_desc *attention) {
    if (!given)
        return fv_fail(FOVEA_ERROR_NULL, "desc is NULL");
    fovea_mha_desc_init(d);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_mha_desc), given, d);
    if (status == FOVEA_OK && !d->attention)
        status = fv_fail(FOVEA_ERROR_NULL, "attention of the fovea_mha_desc is NULL: it gives the layer's shape");
    if (status == FOVEA_OK)
        status = check_enums(d);
    if (status == FOVEA_OK)
        status = fv_attention_read_desc(d->attention, attention);
    if (status == FOVEA_OK)
        status = read_tokens(d, attention);
    if (status == FOVEA_OK && (attention->q_heads == 0 || attention->kv_heads == 0))
        status = fv_fail(FOVEA_ERROR_SHAPE, "q_heads is %lld and kv_heads %lld: a layer has at least one of each",
                         (long long)attention->q_heads, (long long)attention->kv_heads);
    if (status == FOVEA_OK && !(d->norm_eps >= 0.0 && d->norm_eps < 1e30))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "norm_eps is %g; it must be 0 or more", d->norm_eps);
    d->attention = attention;
    return status;
}

fovea_status fv_mha_resolve(const fovea_mha_desc *d, bool v_bias, fv_mha_shape *s) {
    const fovea_attention_desc *a = d->attention;
    *s = (fv_mha_shape){.heads = a->q_heads,
                        .kv_heads = a->kv_heads,
                        .d_k = a->head_dim,
                        .d_v = a->value_dim,
                        .o_out = d->out_features,
                        .heads_dtype = d->out_features > 0 ? a->dtype : a->out_dtype};
    const int64_t k = d->k_features ? d->k_features : d->q_features, v = d->v_features ? d->v_features : k;
    s->role[FV_MHA_Q] =
        (fv_mha_role){.features = d->q_features, .heads = s->heads, .channels = s->d_k, .dtype = a->dtype};
    s->role[FV_MHA_K] = (fv_mha_role){.features = k, .heads = s->kv_heads, .channels = s->d_k, .dtype = a->k_dtype};
    s->role[FV_MHA_V] = (fv_mha_role){.features = v, .heads = s->kv_heads, .channels = s->d_v, .dtype = a->v_dtype};
    for (int i = 0; i < FV_MHA_ROLES; i++)
        s->role[i].same_as = i;
    if (a->page_keys > 0) /* the cache converts them */
        s->role[FV_MHA_K].dtype = s->role[FV_MHA_V].dtype = a->dtype;
    fovea_status status = check_features(d, s);
    if (status == FOVEA_OK)
        status = check_cached(d);
    if (status == FOVEA_OK)
        status = check_dtypes(d, s);
    return status == FOVEA_OK ? resolve_form(d, v_bias, s) : status;
}

static void count_costs(const fovea_mha_desc *desc, const fv_mha_shape *shape, fovea_mha_costs *cost) {
    const fv_mha_shape s = *shape;
    const fovea_attention_desc *a = desc->attention;
    const double weight = (double)fv_dtype_size(a->dtype);
    const double queries = desc->q_tokens ? (double)desc->q_tokens : (double)a->batch * (double)a->q_len;
    const double keys = desc->kv_tokens ? (double)desc->kv_tokens : (double)a->batch * (double)a->kv_len;
    double inputs = 0.0, between = 0.0; /* bytes */
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const fv_mha_role *r = &s.role[i];
        const double rows = i == FV_MHA_Q || a->page_keys > 0 ? queries : keys;
        const double columns = (double)r->heads * (double)r->channels, size = (double)fv_dtype_size(r->dtype);
        if (fv_mha_input(desc, i) == i)
            inputs += size * rows * (desc->form == FOVEA_MHA_PROJECTED ? columns : (double)r->features);
        if (!r->projected || r->same_as != i)
            continue;
        cost->projection_flops += 2.0 * rows * (double)r->features * columns;
        between += size * rows * columns;
        const bool bias =
            desc->biases && !(desc->form == FOVEA_MHA_MERGED && i == FV_MHA_K); /* no W_i of keys has one */
        if (desc->form != FOVEA_MHA_TIED || i == FV_MHA_Q) /* TIED: K from another input, by the same matrix */
            cost->parameters += ((double)r->features + (bias ? 1.0 : 0.0)) * columns;
    }
    const double heads = queries * (double)s.o_in, out = (double)fv_dtype_size(a->out_dtype);
    if (s.o_out > 0) {
        between += (double)fv_dtype_size(s.heads_dtype) * heads;
        cost->output_flops = 2.0 * heads * (double)s.o_out;
        cost->parameters += ((double)s.o_in + (desc->biases ? 1.0 : 0.0)) * (double)s.o_out;
    }
    cost->attention_flops = 2.0 * (double)a->batch * (double)s.heads * fv_attention_pairs(a) *
                            (double)(s.role[FV_MHA_Q].channels + s.role[FV_MHA_V].channels);
    cost->scratch = between;
    cost->bytes =
        inputs + weight * cost->parameters + 2.0 * between + out * (s.o_out > 0 ? queries * (double)s.o_out : heads);
}

fovea_status fovea_mha_desc_costs(const fovea_mha_desc *desc, fovea_mha_costs *cost) {
    FV_HOLD_EXCEPTIONS();
    if (!cost)
        return fv_fail(FOVEA_ERROR_NULL, "cost is NULL");
    const fv_struct type = FV_STRUCT(fovea_mha_costs);
    fv_mha_shape s;
    fovea_mha_desc own;
    fovea_attention_desc attention;
    fovea_status status = fv_struct_check(type, cost);
    if (status == FOVEA_OK)
        status = fv_mha_read_desc(desc, &own, &attention);
    if (status == FOVEA_OK)
        status = fv_mha_resolve(&own, false, &s);
    if (status != FOVEA_OK)
        return status;
    fovea_mha_costs costs;
    fovea_mha_costs_init(&costs);
    count_costs(&own, &s, &costs);
    fv_struct_write(type, cost, &costs);
    return FOVEA_OK;
}
