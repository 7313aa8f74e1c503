/* Checks of arguments: everything that can be wrong is found here, before any output is touched. Descriptions:
 * desc.c. */
#include "attention/api/paged.h"
#include "attention/api/relative_check.h"
#include "attention/outputs/state.h"
#include "attention/plan/plan.h"
#include "attention/visible/mask.h"
#include "core/core.h"

#include <stddef.h>
#include <string.h>

static fovea_status check_lengths(const char *name, const int64_t *lengths, int64_t batch, int64_t longest) {
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > longest)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld; it must be from 0 to %lld", name, (long long)b,
                           (long long)lengths[b], (long long)longest);
    return FOVEA_OK;
}

/* Where the tokens of each sequence are in a tensor. */
typedef struct pieces {
    const char *lens_name, *starts_name, *ends_name;
    const int64_t *lens, *starts, *ends; /* ends: of packed ones, with the start of the first */
    int64_t longest, tokens;
} pieces;

static fovea_status check_padded(const pieces *p, int64_t batch) {
    if (p->ends)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but desc.packed is 0", p->ends_name);
    fovea_status status = check_lengths(p->lens_name, p->lens, batch, p->longest);
    if (status == FOVEA_OK)
        status = check_lengths(p->starts_name, p->starts, batch, p->longest);
    for (int64_t b = 0; status == FOVEA_OK && p->lens && p->starts && b < batch; b++)
        if (p->lens[b] > p->longest - p->starts[b])
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld and %s[%lld] is %lld: that is past the %lld tokens",
                           p->starts_name, (long long)b, (long long)p->starts[b], p->lens_name, (long long)b,
                           (long long)p->lens[b], (long long)p->longest);
    return status;
}

static fovea_status check_packed(const pieces *p, int64_t batch) {
    const int64_t *ends = p->ends;
    if (!ends)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL, and desc.packed is set", p->ends_name);
    if (p->starts)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but sequences are packed: %s tells where they are",
                       p->starts_name, p->ends_name);
    if (ends[0] < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s[0] is %lld; it must be at least 0", p->ends_name, (long long)ends[0]);
    for (int64_t b = 0; b < batch; b++) {
        if (ends[b + 1] < ends[b])
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld, less than the %lld before it", p->ends_name,
                           (long long)b + 1, (long long)ends[b + 1], (long long)ends[b]);
        if (ends[b + 1] > p->tokens)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld, past the %lld tokens", p->ends_name, (long long)b + 1,
                           (long long)ends[b + 1], (long long)p->tokens);
        if (ends[b + 1] - ends[b] > p->longest)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld after %lld: the longest sequence has %lld tokens",
                           p->ends_name, (long long)b + 1, (long long)ends[b + 1], (long long)ends[b],
                           (long long)p->longest);
        if (p->lens && (p->lens[b] < 0 || p->lens[b] > ends[b + 1] - ends[b]))
            return fv_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld; it must be from 0 to %lld", p->lens_name, (long long)b,
                           (long long)p->lens[b], (long long)(ends[b + 1] - ends[b]));
    }
    return FOVEA_OK;
}

static fovea_status check_offsets(const fovea_attention_desc *d, const int64_t *offsets) {
    if (d->causal == FOVEA_CAUSAL_OFFSET && !offsets && d->batch > 0)
        return fv_fail(FOVEA_ERROR_NULL, "q_offsets is NULL, but causal is FOVEA_CAUSAL_OFFSET");
    if (offsets && (d->causal == FOVEA_CAUSAL_TOP_LEFT || d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "q_offsets is given, but causal is %s, which sets the offsets itself",
                       fv_enum_name(FV_ENUM_causal, (int)d->causal));
    for (int64_t b = 0; offsets && b < d->batch; b++)
        if (offsets[b] < -FV_POSITION_LIMIT || offsets[b] > FV_POSITION_LIMIT)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "q_offsets[%lld] is %lld; it must be from -2^60 to 2^60", (long long)b,
                           (long long)offsets[b]);
    return FOVEA_OK;
}

void fv_attention_array_spans(const fovea_attention_desc *d, const fovea_attention_args *args,
                              fv_span spans[FV_ATTENTION_ARRAYS]) {
    enum { HEADS = -1 };
    static const struct {
        const char *name;
        size_t at;
        int more; /* than the sequences of the batch; HEADS: floats, one for each query head */
    } all[FV_ATTENTION_ARRAYS] = {
#define FOVEA_ARGS_LENGTHS(name, more, text) {#name, offsetof(fovea_attention_args, name), more},
#define FOVEA_ARGS_HEADS(name, flag, text) {#name, offsetof(fovea_attention_args, name), HEADS},
#include "fovea/fields.inc"
    };
    for (int i = 0; i < FV_ATTENTION_ARRAYS; i++) {
        uintptr_t begin;
        memcpy(&begin, (const char *)args + all[i].at, sizeof begin);
        const int64_t bytes = all[i].more == HEADS ? d->q_heads * (int64_t)sizeof(float)
                                                   : (d->batch + all[i].more) * (int64_t)sizeof(int64_t);
        spans[i] = (fv_span){all[i].name, begin, begin ? begin + (uintptr_t)bytes : begin};
    }
}

/* The shape of the tensors. */
typedef struct shape {
    int64_t batch, q_tokens, kv_tokens;
} shape;

/* Is there a row to compute? */
static bool has_rows(const fovea_attention_desc *d, const shape *s) {
    return d->batch > 0 && d->q_heads > 0 && s->q_tokens > 0;
}

/* Is an argument given where the description has its flag, and only there? */
static fovea_status check_given(const char *name, bool given, const char *flag, bool set, bool needed) {
    if (set && !given && needed)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL, and desc.%s is set", name, flag);
    if (!set && given)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but desc.%s is 0", name, flag);
    return FOVEA_OK;
}

static fovea_status check_flagged(const fovea_attention_desc *d, const fovea_attention_args *args, const shape *s) {
    fovea_status status = check_given("bias", args->bias.data != NULL, "has_bias", d->has_bias, false);
#define FOVEA_ARGS_HEADS(name, flag, text)                                                                             \
    if (status == FOVEA_OK)                                                                                            \
        status = check_given(#name, args->name != NULL, #flag, d->flag, has_rows(d, s));
#include "fovea/fields.inc"
    return status;
}

static fovea_status read_shape(const fovea_attention_desc *d, const fovea_attention_args *args, shape *s) {
    *s = (shape){d->batch, d->q_len, d->kv_len};
    if (!d->packed)
        return FOVEA_OK;
    s->batch = 1;
    s->q_tokens = args->q.shape[2];
    s->kv_tokens = d->page_keys > 0 ? d->kv_len : args->k.data ? args->k.shape[2] : 0;
    if (s->q_tokens < 0 || s->q_tokens > FV_SIZE_LIMIT || s->kv_tokens < 0 || s->kv_tokens > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "q has %lld tokens and k %lld: negative, or too large",
                       (long long)s->q_tokens, (long long)s->kv_tokens);
    return FOVEA_OK;
}

/* One that is added to scores. */
static fovea_status check_added(const fovea_mask_desc *d, fv_span *span) {
    const fv_tensor_rule rule = {"mask", FOVEA_DTYPE_F32, {d->batch, d->q_heads, d->q_len, d->kv_len}, false, true};
    if (!d->mask.data)
        return fv_mask_empty(d) ? FOVEA_OK : fv_fail(FOVEA_ERROR_NULL, "mask is NULL");
    return fv_tensor_check(&d->mask, &rule, span);
}

fovea_status fv_attention_check_mask(const fovea_attention_desc *d, const fovea_attention_args *args,
                                     fv_span spans[2]) {
    const fovea_mask_desc mask = fv_mask_desc_of(d, args);
    const char *kind = fv_enum_name(FV_ENUM_mask_kind, (int)d->mask);
    spans[0] = (fv_span){"mask", 0, 0};
    spans[1] = (fv_span){"mask_blocks", 0, 0};
    if (args->mask.data && (d->mask == FOVEA_MASK_NONE || d->mask == FOVEA_MASK_PREPARED))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "mask is given, but desc.mask is %s", kind);
    if (args->prepared && d->mask != FOVEA_MASK_PREPARED)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "prepared is given, but desc.mask is %s", kind);
    if (d->mask == FOVEA_MASK_NONE)
        return FOVEA_OK;
    if (d->mask == FOVEA_MASK_PREPARED)
        return fv_mask_check_prepared(&mask, args->prepared);
    return d->mask == FOVEA_MASK_ADDITIVE ? check_added(&mask, spans) : fv_mask_check(&mask, spans);
}

static fovea_status check_tensors(const fovea_attention_plan *plan, const fovea_attention_args *args, const shape *s,
                                  const fv_span *workspace) {
    const fovea_attention_desc *d = &plan->desc;
    const bool rows = s->batch > 0 && d->q_heads > 0 && s->q_tokens > 0, keys = rows && s->kv_tokens > 0,
               tensors = keys && d->page_keys == 0;
    const struct {
        const fovea_tensor *tensor;
        bool required;
        fv_tensor_rule rule;
    } all[] = {
        {&args->q, rows, {"q", d->dtype, {s->batch, d->q_heads, s->q_tokens, d->head_dim}, false, false}},
        {&args->k, tensors, {"k", d->k_dtype, {s->batch, d->kv_heads, s->kv_tokens, d->head_dim}, false, false}},
        {&args->v, tensors, {"v", d->v_dtype, {s->batch, d->kv_heads, s->kv_tokens, d->value_dim}, false, false}},
        {&args->out,
         rows && !args->state,
         {"out", d->out_dtype, {s->batch, d->q_heads, s->q_tokens, d->value_dim}, true, false}},
        {&args->lse, false, {"lse", FOVEA_DTYPE_F32, {s->batch, d->q_heads, s->q_tokens, 1}, true, false}},
        {&args->weights,
         false,
         {"weights", FOVEA_DTYPE_F32, {s->batch, d->q_heads, s->q_tokens, s->kv_tokens}, true, false}},
        {&args->bias,
         d->has_bias && keys,
         {"bias", FOVEA_DTYPE_F32, {s->batch, d->q_heads, s->q_tokens, s->kv_tokens}, false, true}},
        {&args->relative,
         d->relative != FOVEA_RELATIVE_NONE && has_rows(d, s) && s->kv_tokens > 0,
         {"relative",
          FOVEA_DTYPE_F32,
          {d->batch, d->q_heads, 1, fv_relative_entries(d, &args->relative)},
          false,
          true}},
    };
    enum {
        TENSORS = sizeof all / sizeof all[0],
        MASKS = TENSORS + FV_ATTENTION_ARRAYS,
        PAGES = MASKS + 2,
        STATS = PAGES + FV_PAGED_SPANS,
        STATE,
        OUTPUTS,
        OPERANDS = OUTPUTS + FV_ATTENTION_OUTPUTS
    };
    fv_span spans[OPERANDS];
    const fovea_status paged = fv_paged_check(d, args, &spans[PAGES]);
    if (paged != FOVEA_OK)
        return paged;
    for (int i = 0; i < TENSORS; i++) {
        spans[i] = (fv_span){all[i].rule.name, 0, 0};
        if (!all[i].tensor->data) {
            if (all[i].required)
                return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", all[i].rule.name);
            continue;
        }
        const fovea_status status = fv_tensor_check(all[i].tensor, &all[i].rule, &spans[i]);
        if (status != FOVEA_OK)
            return status;
    }
    /* Read while outputs are written: a length that changed would send reads and writes anywhere. */
    fv_attention_array_spans(d, args, spans + TENSORS);
    const fovea_status masked = fv_attention_check_mask(d, args, &spans[MASKS]);
    if (masked != FOVEA_OK)
        return masked;
    spans[STATS] = fv_struct_span("stats", args->stats);
    const fovea_status state = fv_attention_state_check(plan, args, &spans[STATE]);
    if (state != FOVEA_OK)
        return state;
    const fovea_status outputs = fv_attention_check_outputs(d, args, &spans[OUTPUTS]);
    if (outputs != FOVEA_OK)
        return outputs;
    bool written[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        written[i] = i < TENSORS
                         ? all[i].rule.output
                         : i == STATS || i == STATE || (i >= OUTPUTS && i < OUTPUTS + FV_ATTENTION_OUTPUTS_WRITTEN);
    return fv_spans_apart(spans, written, OPERANDS, workspace);
}

const fovea_attention_args *fv_attention_read_args(const fovea_attention_args *given, fovea_attention_args *own,
                                                   fovea_status *status) {
    const fv_struct type = FV_STRUCT(fovea_attention_args);
    if (given->struct_size == sizeof *given) { /* as a rule: no copy */
        *status = FOVEA_OK;
        return given;
    }
    fovea_attention_args_init(own);
    *status = fv_struct_read(type, given, own);
    return own;
}

fovea_status fv_attention_check_args(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                     const void *workspace, size_t workspace_size) {
    const fovea_attention_desc *d = &plan->desc;
    if (workspace && workspace_size < (size_t)plan->bytes)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, but this plan needs %lld", workspace_size,
                       (long long)plan->bytes);
    if (args->key_list)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "key_list is not NULL: it is reserved");
    shape s;
    fovea_status status = read_shape(d, args, &s);
    if (status != FOVEA_OK)
        return status;
    const pieces sides[] = {
        {"q_lens", "q_starts", "q_cu_seqlens", args->q_lens, args->q_starts, args->q_cu_seqlens, d->q_len, s.q_tokens},
        {"kv_lens", "kv_starts", "kv_cu_seqlens", args->kv_lens, args->kv_starts, args->kv_cu_seqlens, d->kv_len,
         s.kv_tokens}};
    for (int i = 0; status == FOVEA_OK && i < 2; i++) {
        const bool packed = d->packed && !(i == 1 && d->page_keys > 0);
        status = packed ? check_packed(&sides[i], d->batch) : check_padded(&sides[i], d->batch);
    }
    if (status == FOVEA_OK)
        status = check_offsets(d, args->q_offsets);
    if (status == FOVEA_OK)
        status = check_flagged(d, args, &s);
    if (status == FOVEA_OK && args->stats)
        status = fv_struct_check(FV_STRUCT(fovea_attention_stats), args->stats);
    if (status != FOVEA_OK)
        return status;
    const uintptr_t begin = (uintptr_t)workspace;
    fv_span span = {"the workspace", begin, workspace ? begin + (uintptr_t)plan->bytes : begin};
    status = fv_relative_check_args(d, args);
    if (status == FOVEA_OK)
        status = check_tensors(plan, args, &s, &span);
    return status == FOVEA_OK && !args->cache ? fv_relative_check_sequences(d, args) : status;
}
