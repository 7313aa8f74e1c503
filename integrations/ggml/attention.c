/* FLASH_ATTN_EXT through fovea_attention_execute(): what is served, and the call. */
#include "attention_part.h"
#include "operations.h"

#include <math.h>
#include <string.h>

/* Biases take at most this many bytes written out; if they need more, rows and heads are computed in parts. */
enum { BIAS_BYTES = 64 << 20 };

static bool quantized(const fg_type *type) { return type->block > 1; }

/* Fills a from the operation. False where the library or this file has no words for it. */
static bool read(const struct ggml_tensor *op, fg_attention *a) {
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    float params[3];
    memcpy(params, op->op_params, sizeof params);
    *a = (fg_attention){.q = q,
                        .k = k,
                        .v = v,
                        .mask = op->src[3],
                        .sinks = op->src[4],
                        .out = op,
                        .k_type = fg_type_of(k->type),
                        .v_type = fg_type_of(v->type),
                        .head_dim = q->ne[0],
                        .rows = q->ne[1],
                        .heads = q->ne[2],
                        .batch = q->ne[3],
                        .keys = k->ne[1],
                        .kv_heads = k->ne[2],
                        .value_dim = v->ne[0],
                        .max_bias = params[1]};
    fovea_attention_desc_init(&a->desc);
    a->desc.head_dim = a->head_dim;
    a->desc.value_dim = a->value_dim;
    a->desc.has_scale = 1;
    a->desc.scale = (double)params[0];
    a->desc.softcap = (double)fabsf(params[2]);
    a->desc.has_sinks = a->sinks != NULL;
    return a->k_type && a->v_type;
}

static bool any_type(const fg_type *type) {
    static const fovea_dtype served[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_BF16, FOVEA_DTYPE_Q8_0,
                                         FOVEA_DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
        if (type && type->dtype == served[i])
            return true;
    return false;
}

static bool is(const struct ggml_tensor *t, fovea_dtype dtype) {
    const fg_type *type = fg_type_of(t->type);
    return type && type->dtype == dtype;
}

/* Rows are contiguous, and all strides count whole elements or blocks. */
static bool strides_whole(const struct ggml_tensor *t) {
    const fg_type *type = fg_type_of(t->type);
    for (int i = 1; i < 4; i++)
        if ((int64_t)t->nb[i] % type->bytes || (int64_t)t->nb[i] < 0)
            return false;
    return (int64_t)t->nb[0] == type->bytes && t->ne[0] % type->block == 0;
}

static bool mask_served(const fg_attention *a) {
    const struct ggml_tensor *m = a->mask;
    return !m || (is(m, FOVEA_DTYPE_F16) && strides_whole(m) && m->ne[0] >= a->keys && m->ne[1] >= a->rows);
}

static bool sinks_served(const fg_attention *a) {
    const struct ggml_tensor *s = a->sinks;
    return !s || (is(s, FOVEA_DTYPE_F32) && strides_whole(s) && s->ne[0] == a->heads);
}

/* Are the numbers of a description within the ranges that the library allows? */
static bool numbers_served(const fovea_attention_desc *d) {
    bool served = true;
#define IN_RANGE(name, least, most) served = served && (d->name == 0 || (d->name >= (least) && d->name <= (most)));
#define FOVEA_DESC_NUMBER(name, least, most, text) IN_RANGE(name, least, most)
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text) IN_RANGE(name, least, most)
#include "fovea/fields.inc"
    return served;
}

bool fg_attention_serves(const struct ggml_tensor *op) {
    fg_attention a;
    if (!op->src[0] || !op->src[1] || !op->src[2] || !read(op, &a) || !is(a.q, FOVEA_DTYPE_F32) ||
        !is(op, FOVEA_DTYPE_F32) || !any_type(a.k_type) || !any_type(a.v_type) || !mask_served(&a) ||
        !sinks_served(&a) || !strides_whole(a.q) || !strides_whole(a.k) || !strides_whole(a.v) || !strides_whole(op))
        return false;
    enum { MOST_CHANNELS = 65536 };
    const int64_t kv_batch = a.k->ne[3];
    return a.batch * a.heads * a.rows * a.keys > 0 && a.heads % a.kv_heads == 0 && a.v->ne[2] == a.kv_heads &&
           a.v->ne[1] == a.keys && a.v->ne[3] == kv_batch && (kv_batch == a.batch || kv_batch == 1) &&
           a.head_dim == a.k->ne[0] && a.head_dim <= MOST_CHANNELS && a.value_dim <= MOST_CHANNELS &&
           isfinite(a.max_bias) && (!(a.max_bias > 0) || a.mask) && numbers_served(&a.desc);
}

/* out's tokens and heads have changed places. */
static fovea_tensor out_tensor(const fg_attention *a) {
    const struct ggml_tensor *t = a->out;
    return (fovea_tensor){.data = t->data,
                          .dtype = FOVEA_DTYPE_F32,
                          .shape = {a->batch, a->heads, a->rows, a->value_dim},
                          .stride = {(int64_t)t->nb[3] / 4, (int64_t)t->nb[1] / 4, (int64_t)t->nb[2] / 4, 1}};
}

static enum ggml_status compute_part(fg_backend *backend, fg_team *team, const fg_attention *a, const fg_part *part) {
    fovea_attention_desc desc;
    fg_attention_desc(a, part, &desc);
    desc.k_dtype = a->k_type->dtype;
    desc.v_dtype = a->v_type->dtype;
    const fovea_attention_plan *plan = fg_attention_plan(backend, team, &desc);
    if (!plan)
        return GGML_STATUS_FAILED;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    const int64_t group = a->heads / a->kv_heads;
    args.q = fg_attention_view(fg_attention_tensor(a->q, a->batch), 0, a->batch, part->head, part->heads, part->row,
                               part->rows);
    args.k = fg_attention_view(fg_attention_tensor(a->k, a->batch), 0, a->batch, part->head / group,
                               part->heads / group, 0, a->keys);
    args.v = fg_attention_view(fg_attention_tensor(a->v, a->batch), 0, a->batch, part->head / group,
                               part->heads / group, 0, a->keys);
    args.out = fg_attention_view(out_tensor(a), 0, a->batch, part->head, part->heads, part->row, part->rows);
    args.mask = fg_mask_part(a, part, NULL);
    args.sinks = a->sinks ? (const float *)a->sinks->data + part->head : NULL;
    if (a->seen.has_bias) {
        float *memory = fg_memory_get(&backend->bias, (size_t)fg_mask_bias_size(a, part) * sizeof(float));
        if (!memory)
            return GGML_STATUS_ALLOC_FAILED;
        args.bias = fg_mask_bias(a, team, part, memory);
    }
    const size_t size = fovea_attention_plan_workspace_size(plan);
    void *workspace = fg_memory_get(&backend->workspace, size);
    if (!workspace)
        return GGML_STATUS_ALLOC_FAILED;
    return fg_status(fovea_attention_execute(plan, &args, workspace, size), "FLASH_ATTN_EXT");
}

enum ggml_status fg_attention_compute(fg_backend *backend, struct ggml_tensor *op) {
    fg_attention a;
    if (!read(op, &a))
        return GGML_STATUS_FAILED;
    const double pairs = (double)(a.batch * a.heads * a.rows) * (double)a.keys;
    fg_team *team = fg_backend_team_for(backend, 2 * pairs * (double)(a.head_dim + a.value_dim));
    if (!team)
        return GGML_STATUS_FAILED;
    enum ggml_status status = fg_mask_read(backend, team, &a);
    if (status != GGML_STATUS_SUCCESS)
        return status;
    if (quantized(a.k_type) || quantized(a.v_type))
        return fg_attention_quantized(backend, team, &a);
    fg_part part = {.sequences = a.batch, .heads = a.heads, .rows = a.rows, .keys = a.keys};
    if (a.seen.has_bias) {
        const int64_t group = a.heads / a.kv_heads, most = BIAS_BYTES / (int64_t)sizeof(float);
        if (fg_mask_bias_size(&a, &part) > most)
            part.heads = group;
        if (fg_mask_bias_size(&a, &part) > most) {
            part.rows = 1;
            part.rows = most / fg_mask_bias_size(&a, &part);
            part.rows = part.rows < 1 ? 1 : part.rows > a.rows ? a.rows : part.rows;
        }
    }
    const int64_t heads = part.heads, rows = part.rows;
    for (part.head = 0; part.head < a.heads && status == GGML_STATUS_SUCCESS; part.head += heads)
        for (part.row = 0; part.row < a.rows && status == GGML_STATUS_SUCCESS; part.row += rows) {
            part.rows = a.rows - part.row < rows ? a.rows - part.row : rows;
            status = compute_part(backend, team, &a, &part);
        }
    return status;
}
