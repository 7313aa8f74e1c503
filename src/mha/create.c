/* Making layers: weights are gathered and packed once, the rest is made anew for each shape. */
#include "attention/attention.h"
#include "core/core.h"
#include "linear/linear.h"
#include "mha/mha.h"
#include "quantization/quantization.h"

#include <math.h>
#include <stdlib.h>

static void drop(fv_mha_packed *packed) {
    if (!packed || atomic_fetch_sub(&packed->owners, 1) > 1)
        return;
    for (int i = 0; i < FV_MHA_ROLES; i++)
        fovea_linear_destroy(packed->map[i]);
    for (int i = 0; i < FV_MHA_ROLES; i++)
        free(packed->norm[i]);
    fovea_linear_destroy(packed->out);
    free(packed);
}

static fovea_linear_part part_of(const fv_dense *d) {
    fovea_linear_part part = {
        .weight = fovea_matrix_in_out(d->w, d->dtype, d->in, d->out), .bias = d->bias, .bias_dtype = FOVEA_DTYPE_F32};
    part.weight.quantization = d->scales ? &d->quantization : NULL;
    if (d->given)
        part.weight = *d->given;
    return part;
}

/* A map from rows of x_dtype to rows of y_dtype, in the layer's arithmetic if that is defined for its types. */
static fovea_status pack(const fovea_context *ctx, const fovea_mha_desc *layer, const fovea_linear_part *parts,
                         int64_t count, fovea_dtype x_dtype, fovea_dtype y_dtype, fovea_linear **map) {
    bool named = x_dtype == FOVEA_DTYPE_BF16, quantized = false;
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.dtype = x_dtype;
    desc.y_dtype = y_dtype;
    desc.in_features = parts[0].weight.in;
    desc.part_count = count;
    desc.parts = parts;
    desc.placement = layer->placement;
    desc.placement_node = layer->placement_node;
    for (int64_t p = 0; p < count; p++) {
        named = named && parts[p].weight.dtype == FOVEA_DTYPE_BF16;
        quantized = quantized || fv_dtype_quantized(parts[p].weight.dtype);
    }
    desc.arithmetic = quantized ? layer->quantized_arithmetic
                      : named   ? layer->attention->arithmetic
                                : FOVEA_ARITHMETIC_EXACT;
    return fovea_linear_create(ctx, &desc, map);
}

/* Can both be parts of one map, without becoming floats for that? */
static bool together(const fv_dense *a, const fv_dense *b) {
    const fovea_matrix v = part_of(a).weight, w = part_of(b).weight;
    const bool quantized = fv_dtype_quantized(v.dtype);
    return quantized == fv_dtype_quantized(w.dtype) && (!quantized || fv_quantized_together(&v, &w));
}

/* Which map makes a role. What is projected from one input is one product, if it is quantized alike or not at all.
 * TIED: inputs of one type share a map. */
static void select_maps(const fovea_mha_desc *desc, const fv_mha_shape *shape, const fv_mha_dense *dense, int *map_of) {
    const fv_mha_role *role = shape->role;
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        map_of[i] = i;
        if (desc->form == FOVEA_MHA_TIED)
            map_of[i] = role[i].dtype == role[FV_MHA_Q].dtype ? FV_MHA_Q : role[i].same_as;
        for (int j = i - 1; fv_dense_there(&dense->role[i]) && j >= 0; j--)
            if (map_of[j] == j && fv_dense_there(&dense->role[j]) && fv_mha_input(desc, j) == fv_mha_input(desc, i) &&
                together(&dense->role[j], &dense->role[i]))
                map_of[i] = j;
    }
}

static fovea_status pack_all(const fovea_context *ctx, const fovea_mha_desc *desc, const fv_mha_shape *shape,
                             const fv_mha_dense *dense, fv_mha_packed *packed) {
    const bool tied = desc->form == FOVEA_MHA_TIED;
    fovea_status status = FOVEA_OK;
    select_maps(desc, shape, dense, packed->map_of);
    for (int map = 0; status == FOVEA_OK && map < FV_MHA_ROLES; map++) {
        fovea_linear_part parts[FV_MHA_ROLES];
        int64_t count = 0;
        for (int i = 0; i < FV_MHA_ROLES; i++)
            if (packed->map_of[i] == map && (tied ? i == map : fv_dense_there(&dense->role[i])))
                parts[count++] = part_of(&dense->role[tied ? FV_MHA_Q : i]);
        const fovea_dtype dtype = shape->role[map].dtype;
        if (count > 0)
            status = pack(ctx, desc, parts, count, dtype, dtype, &packed->map[map]);
    }
    if (status == FOVEA_OK && fv_dense_there(&dense->o)) {
        const fovea_linear_part out = part_of(&dense->o);
        status = pack(ctx, desc, &out, 1, shape->heads_dtype, desc->attention->out_dtype, &packed->out);
    }
    return status;
}

static fovea_status keep_norms(const fv_mha_shape *s, const fovea_mha_weights *w, fv_mha_packed *packed) {
    const void *norms[] = {w->q_norm, w->k_norm};
    for (int i = 0; i < 2; i++) {
        if (!norms[i])
            continue;
        packed->norm[i] = malloc((size_t)s->d_k * sizeof(float));
        if (!packed->norm[i])
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for the weight of a norm");
        const fovea_status status = fovea_convert(s->d_k, norms[i], w->bias_dtype, packed->norm[i], FOVEA_DTYPE_F32);
        if (status != FOVEA_OK)
            return status;
    }
    return FOVEA_OK;
}

static fovea_status make_packed(const fovea_context *ctx, const fovea_mha_desc *desc, const fv_mha_shape *shape,
                                const fovea_mha_weights *weights, fv_mha_packed **packed) {
    fv_mha_packed *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a layer (%zu bytes)", sizeof *made);
    atomic_init(&made->owners, 1);
    fv_mha_dense dense;
    fovea_status status = fv_mha_gather(desc, shape, weights, ctx->target, &dense);
    if (status == FOVEA_OK) {
        status = pack_all(ctx, desc, shape, &dense, made);
        fv_mha_dense_free(&dense);
    }
    if (status == FOVEA_OK)
        status = keep_norms(shape, weights, made);
    if (status != FOVEA_OK) {
        drop(made);
        return status;
    }
    *packed = made;
    return FOVEA_OK;
}

/* Where the parts of the workspace begin. */
static bool lay_out(fovea_mha *m) {
    const fovea_attention_desc *a = &m->attention;
    int64_t at = 0, elements;
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const fv_mha_role *r = &m->shape.role[i];
        const bool queries =
            i == FV_MHA_Q || fv_mha_cached(m); /* over a cache, keys are made of the new tokens alone */
        const int64_t tokens = queries ? m->desc.q_tokens : m->desc.kv_tokens;
        m->at[i] = at;
        m->rows[i] = tokens;
        if (tokens == 0 && !fv_multiply(a->batch, queries ? a->q_len : a->kv_len, &m->rows[i]))
            return false;
        if (!r->projected || r->same_as != i)
            continue;
        if (!fv_multiply(m->rows[i], r->heads * r->channels, &elements))
            return false;
        m->at[i] = fv_reserve(&at, elements, fv_dtype_size(r->dtype));
    }
    if (!fv_multiply(m->rows[FV_MHA_Q], m->shape.o_in, &elements))
        return false;
    m->heads_at = fv_reserve(&at, m->packed->out ? elements : 0, fv_dtype_size(m->shape.heads_dtype));
    m->lens_at = fv_reserve(&at, a->batch, (int64_t)sizeof(int64_t));
    if (!fv_add(m->rows[FV_MHA_Q], a->batch, &elements))
        return false;
    m->positions_at = fv_reserve(&at, fv_mha_cached(m) ? elements : 0, (int64_t)sizeof(int64_t));
    size_t inner = fovea_attention_plan_workspace_size(m->plan);
    for (int i = 0; i <= FV_MHA_ROLES; i++) {
        const size_t size =
            fovea_linear_apply_workspace_size(m->ctx, i < FV_MHA_ROLES ? m->packed->map[i] : m->packed->out);
        inner = size > inner ? size : inner;
    }
    const size_t norms = fv_mha_norm_bytes(m);
    inner = norms > inner ? norms : inner;
    m->inner_bytes = (int64_t)inner;
    m->inner_at = fv_reserve(&at, m->inner_bytes, 1);
    m->bytes = at + FV_ALIGNMENT;
    return at >= 0;
}

/* The part of a layer that depends on its shape; takes over one ownership of m->packed. */
static fovea_status finish(fovea_mha *m) {
    fovea_attention_desc attention = m->attention;
    attention.head_dim = m->shape.role[FV_MHA_Q].channels;
    attention.value_dim = m->shape.role[FV_MHA_V].channels;
    if (m->packed->out)
        attention.out_dtype = m->shape.heads_dtype;
    if (!attention.has_scale)
        attention.scale = 1.0 / sqrt((double)m->shape.d_k);
    attention.has_scale = 1;
    fovea_status status = fovea_attention_plan_create(m->ctx, &attention, &m->plan);
    if (status == FOVEA_OK && !lay_out(m))
        status = fv_fail(FOVEA_ERROR_OVERFLOW, "the layer's workspace is too large");
    return status;
}

void fovea_mha_destroy(fovea_mha *mha) {
    if (!mha)
        return;
    fovea_attention_plan_destroy(mha->plan);
    drop(mha->packed);
    free(mha);
}

fovea_status fovea_mha_create(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *weights,
                              fovea_mha **mha) {
    FV_HOLD_EXCEPTIONS();
    if (!mha)
        return fv_fail(FOVEA_ERROR_NULL, "mha is NULL");
    *mha = NULL;
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    fv_mha_shape shape;
    fovea_mha_desc own_desc;
    fovea_attention_desc attention;
    fovea_mha_weights own_weights;
    fovea_status status = fv_mha_read_desc(desc, &own_desc, &attention);
    if (status == FOVEA_OK)
        status = fv_mha_read_weights(weights, &own_weights);
    desc = &own_desc;
    weights = &own_weights;
    if (status == FOVEA_OK)
        status = fv_mha_resolve(desc, weights->v_bias || weights->outer_v_bias || weights->fused_bias, &shape);
    if (status == FOVEA_OK)
        status = fv_mha_check_weights(desc, &shape, weights);
    if (status != FOVEA_OK)
        return status;
    fovea_mha *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a layer (%zu bytes)", sizeof *made);
    made->ctx = ctx;
    made->desc = *desc;
    made->attention = attention;
    made->desc.attention = &made->attention;
    made->shape = shape;
    status = make_packed(ctx, desc, &shape, weights, &made->packed);
    if (status == FOVEA_OK)
        status = finish(made);
    if (status != FOVEA_OK) {
        fovea_mha_destroy(made);
        return status;
    }
    *mha = made;
    return FOVEA_OK;
}

fovea_status fovea_mha_reshape(const fovea_mha *mha, int64_t batch, int64_t q_len, int64_t kv_len, fovea_mha **other) {
    FV_HOLD_EXCEPTIONS();
    if (!other)
        return fv_fail(FOVEA_ERROR_NULL, "other is NULL");
    *other = NULL;
    if (!mha)
        return fv_fail(FOVEA_ERROR_NULL, "mha is NULL");
    if (mha->desc.inputs == FOVEA_MHA_SELF && q_len != kv_len && !fv_mha_cached(mha))
        return fv_fail(FOVEA_ERROR_SHAPE, "q_len %lld and kv_len %lld differ, but inputs is FOVEA_MHA_SELF",
                       (long long)q_len, (long long)kv_len);
    fovea_mha *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a layer (%zu bytes)", sizeof *made);
    *made = *mha;
    made->desc.attention = &made->attention;
    made->plan = NULL;
    made->attention.batch = batch;
    made->attention.q_len = q_len;
    made->attention.kv_len = kv_len;
    atomic_fetch_add(&made->packed->owners, 1);
    const fovea_status status = finish(made);
    if (status != FOVEA_OK) {
        fovea_mha_destroy(made);
        return status;
    }
    *other = made;
    return FOVEA_OK;
}

fovea_status fovea_mha_linear(const fovea_mha *mha, int weight, const fovea_linear **linear, int64_t *part, int64_t *in,
                              int64_t *out) {
    const fv_pointer pointers[] = {{"mha", mha}, {"linear", linear}, {"part", part}, {"in", in}, {"out", out}};
    const fovea_status status = fv_pointers_check(pointers, 5);
    if (status != FOVEA_OK)
        return status;
    if (weight < 0 || weight > FV_MHA_ROLES)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "weight is %d; it must be from 0 to %d", weight, FV_MHA_ROLES);
    const fv_mha_packed *packed = mha->packed;
    *linear = packed->out;
    *part = 0;
    for (int i = 0; i <= weight && weight < FV_MHA_ROLES; i++) {
        const bool there = mha->shape.role[i].projected && (i == 0 || mha->desc.form != FOVEA_MHA_TIED);
        if (i == weight)
            *linear = there ? packed->map[packed->map_of[weight]] : NULL;
        else if (there && packed->map_of[i] == packed->map_of[weight])
            ++*part;
    }
    *in = *linear ? (*linear)->in : 0;
    *out = *linear ? (*linear)->parts[*part].out : 0;
    return FOVEA_OK;
}

size_t fovea_mha_workspace_size(const fovea_mha *mha) { return mha ? (size_t)mha->bytes : 0; }
