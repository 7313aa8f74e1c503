/* States (state.h, fovea/state.h): checks, and what callers do with them between calls. */
#include "attention/outputs/state.h"

#include "attention/flash/state_rows.h"
#include "dispatch/dispatch.h"

static const char *const axes[4] = {"batch", "q_heads", "q_len", "value_dim"};

static fovea_attention_state header_of(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    return (fovea_attention_state){.magic = FV_STATE_MAGIC,
                                   .shape = {d->batch, d->q_heads, d->q_len, d->value_dim},
                                   .joint = d->batch == 1 && !d->packed,
                                   .rotated = fv_sources_values(&plan->sources)->rotated};
}

static fv_span span_of(const fovea_attention_state *s, const char *name) {
    const uintptr_t begin = (uintptr_t)s;
    return (fv_span){name, begin, begin + (uintptr_t)fv_state_bytes_of(s)};
}

/* The most keys of a sequence in this piece. */
static int64_t keys_of(const fovea_attention_plan *plan, const fovea_attention_args *args) {
    int64_t most = 0;
    for (int64_t b = 0; b < plan->desc.batch; b++)
        most = fv_max(most, fv_attention_sequence(&plan->desc, args, b).kv_len);
    return most;
}

static fovea_status check_state(const fovea_attention_state *s, const char *name) {
    if (!s)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    if ((uintptr_t)s % _Alignof(fovea_attention_state) != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s: its memory is not aligned to %zu bytes", name,
                       _Alignof(fovea_attention_state));
    if (s->magic != FV_STATE_MAGIC)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s was not made by fovea_attention_state_init()", name);
    return FOVEA_OK;
}

static fovea_status check_shape(const fovea_attention_state *s, const char *name, const int64_t want[4],
                                const char *whose) {
    for (int i = 0; i < 4; i++)
        if (s->shape[i] != want[i])
            return fv_fail(FOVEA_ERROR_SHAPE, "%s has a %s of %lld, %s one of %lld", name, axes[i],
                           (long long)s->shape[i], whose, (long long)want[i]);
    return FOVEA_OK;
}

static fovea_status check_rotated(const fovea_attention_state *s, const char *name, bool rotated, const char *whose) {
    static const char *const outputs[] = {"plain", "rotated"};
    return s->rotated == rotated
               ? FOVEA_OK
               : fv_fail(FOVEA_ERROR_DTYPE,
                         "%s has %s outputs, %s %s ones: all values of a state are FOVEA_DTYPE_I4, or none of them",
                         name, outputs[s->rotated], whose, outputs[rotated]);
}

static fovea_status check_order(const char *name, int64_t begin, const fovea_attention_state *s) {
    if (begin >= s->end)
        return FOVEA_OK;
    return fv_fail(FOVEA_ERROR_ARGUMENT,
                   "%s begins with key %lld, but the state has keys up to %lld: they come in ascending order", name,
                   (long long)begin, (long long)s->end);
}

/* ---------------------------------------------------------------------------------------------------- execution -- */

fovea_status fv_attention_state_check(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                      fv_span *span) {
    const int64_t first = args->first_key;
    *span = (fv_span){"state", 0, 0};
    if (!args->state)
        return first == 0 ? FOVEA_OK
                          : fv_fail(FOVEA_ERROR_ARGUMENT, "first_key is %lld, but there is no state", (long long)first);
    fovea_status status = check_state(args->state, "state");
    const fovea_attention_desc *d = &plan->desc;
    const bool joint = status == FOVEA_OK && args->state->joint;
    const int64_t tokens = !joint ? d->q_len : d->packed ? args->q.shape[2] : d->batch * d->q_len;
    if (status == FOVEA_OK)
        status = check_shape(args->state, "state", (int64_t[4]){joint ? 1 : d->batch, d->q_heads, tokens, d->value_dim},
                             "the plan");
    if (status == FOVEA_OK)
        status = check_rotated(args->state, "state", fv_sources_values(&plan->sources)->rotated, "the plan");
    if (status != FOVEA_OK)
        return status;
    if (first < 0 || first > FV_SIZE_LIMIT || first % FV_SEGMENT != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "first_key is %lld; it must be a multiple of %d, from 0 to 2^48",
                       (long long)first, FV_SEGMENT);
    if (d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "FOVEA_CAUSAL_BOTTOM_RIGHT cannot be used with a state, since it needs the number "
                       "of all keys: use FOVEA_CAUSAL_OFFSET");
    const struct {
        const char *name;
        bool given;
    } need_lse[] = {{"weights", args->weights.data},
                    {"scores of kind FOVEA_SCORES_WEIGHTS", args->scores && args->scores->kind == FOVEA_SCORES_WEIGHTS},
                    {"summary", args->summary}};
    for (size_t i = 0; i < sizeof need_lse / sizeof need_lse[0]; i++)
        if (need_lse[i].given)
            return fv_fail(FOVEA_ERROR_UNSUPPORTED, "%s given with a state: the lse of all keys is needed",
                           need_lse[i].name);
    if (args->lse.data && !args->out.data)
        return fv_fail(FOVEA_ERROR_NULL, "lse is given, but out is NULL: a call that finishes writes both");
    *span = span_of(args->state, "state");
    return keys_of(plan, args) > 0 ? check_order("the piece", first, args->state) : FOVEA_OK;
}

void fv_attention_state_advance(const fovea_attention_plan *plan, const fovea_attention_args *args) {
    fovea_attention_state *s = args->state;
    const int64_t keys = keys_of(plan, args);
    if (keys == 0)
        return;
    if (s->begin == s->end)
        s->begin = args->first_key;
    s->end = args->first_key + fv_round_up(keys, FV_SEGMENT);
}

/* -------------------------------------------------------------------------------------------------------- public -- */

size_t fovea_attention_plan_state_size(const fovea_attention_plan *plan) {
    if (!plan)
        return 0;
    const fovea_attention_state own = header_of(plan);
    return (size_t)fv_state_bytes_of(&own);
}

fovea_status fovea_attention_state_init(const fovea_attention_plan *plan, void *memory, size_t size,
                                        fovea_attention_state **state) {
    if (!state)
        return fv_fail(FOVEA_ERROR_NULL, "state is NULL");
    *state = NULL;
    if (!plan || !memory)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", plan ? "memory" : "plan");
    const fovea_attention_state own = header_of(plan);
    if (size < (size_t)fv_state_bytes_of(&own))
        return fv_fail(FOVEA_ERROR_WORKSPACE, "memory has %zu bytes, a state of this plan needs %lld", size,
                       (long long)fv_state_bytes_of(&own));
    if ((uintptr_t)memory % _Alignof(fovea_attention_state) != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "memory is not aligned to %zu bytes", _Alignof(fovea_attention_state));
    fovea_attention_state *s = memory;
    *s = own;
    fv_state_clear(s);
    *state = s;
    return FOVEA_OK;
}

fovea_status fovea_attention_state_merge(fovea_attention_state *state, const fovea_attention_state *later) {
    FV_HOLD_EXCEPTIONS();
    enum { ROWS = 64 };
    float a[ROWS], b[ROWS];
    const fovea_context *ctx;
    fovea_status status = check_state(state, "state");
    if (status == FOVEA_OK)
        status = check_state(later, "later");
    if (status == FOVEA_OK)
        status = check_shape(later, "later", state->shape, "state");
    if (status == FOVEA_OK)
        status = check_rotated(later, "later", state->rotated, "state");
    if (status != FOVEA_OK)
        return status;
    const fv_span into = span_of(state, "state"), from = span_of(later, "later");
    status = fv_spans_disjoint(&into, &from);
    if (status != FOVEA_OK || later->begin == later->end)
        return status;
    status = check_order("later", later->begin, state);
    if (status == FOVEA_OK)
        status = fv_context_default(&ctx);
    if (status != FOVEA_OK)
        return status;
    fv_merge_f32_fn *merge = fv_kernel_best(FV_OP_merge, FV_TYPE_f32, ctx->target)->run.merge_f32;
    fv_accumulate_f32_fn *accumulate = fv_kernel_best(FV_OP_accumulate, FV_TYPE_f32, ctx->target)->run.accumulate_f32;
    const int64_t channels = state->shape[3], all = fv_state_count(state);
    for (int64_t row = 0; row < all; row += ROWS) {
        const int64_t rows = fv_min(ROWS, all - row);
        const fv_state_rows to = fv_state_rows_from(state, row);
        const fv_state_rows part = fv_state_rows_from((fovea_attention_state *)(uintptr_t)later, row); /* read only */
        merge(rows, part.max, part.sum, to.max, to.sum, a, b);
        accumulate(rows, channels, part.o, channels, a, b, to.o, channels);
    }
    if (state->begin == state->end)
        state->begin = later->begin;
    state->end = later->end;
    return FOVEA_OK;
}
