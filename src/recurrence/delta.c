/* fovea_gated_delta_rule (fovea/recurrence.h). */
#include "recurrence/recurrence.h"

#include <math.h>

static fovea_status check_heads(const fovea_delta_args *a) {
    const int64_t heads = a->v.shape[1], k_heads = a->k.shape[1], q_heads = a->q.shape[1];
    if (heads % k_heads != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "v has %lld heads, which is no multiple of the %lld of k", (long long)heads,
                       (long long)k_heads);
    if (heads % q_heads != 0 && q_heads % heads != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "q has %lld heads; it must be a divisor or a multiple of the %lld of v",
                       (long long)q_heads, (long long)heads);
    if (a->k.shape[3] > FV_CHANNEL_LIMIT || a->v.shape[3] > FV_CHANNEL_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "heads of %lld x %lld channels are too large", (long long)a->k.shape[3],
                       (long long)a->v.shape[3]);
    return FOVEA_OK;
}

static fovea_status check_numbers(const fovea_delta_args *a) {
    if (a->norm < FOVEA_L2_NONE || a->norm > FOVEA_L2_MAX)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "norm is %d, not a fovea_l2", (int)a->norm);
    if (!(a->eps >= 0 && isfinite((float)a->eps)))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "eps is %g; it must be a finite number of at least 0", a->eps);
    if (!isfinite((float)a->scale) || !isfinite((float)a->beta_scale))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "scale is %g, beta_scale %g; both must be finite", a->scale,
                       a->beta_scale);
    if (!(a->dt_min <= a->dt_max))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "dt_min is %g, dt_max %g; dt_min must not be greater", a->dt_min,
                       a->dt_max);
    if (a->a_log && !a->gate.data)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "a_log is given without a gate");
    if (a->dt_bias && !a->a_log)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "dt_bias is given without a_log");
    return FOVEA_OK;
}

/* Sizes; a tensor that may be absent is, if it has neither data nor sizes. */
static fovea_status check_shapes(const fovea_delta_args *a) {
    fovea_status status = fv_call_sizes("v", &a->v);
    if (status == FOVEA_OK)
        status = fv_call_sizes("k", &a->k);
    if (status == FOVEA_OK)
        status = fv_call_sizes("q", &a->q);
    if (status == FOVEA_OK)
        status = check_heads(a);
    return status == FOVEA_OK ? check_numbers(a) : status;
}

/* Reads a call's sizes. */
static fovea_status read(const fovea_context *ctx, const fovea_delta_args *given, fovea_delta_args *a, fv_rule *rule) {
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    fovea_delta_args_init(a);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_delta_args), given, a);
    if (status == FOVEA_OK)
        status = check_shapes(a);
    *rule = (fv_rule){.ctx = ctx,
                      .q = &a->q,
                      .k = &a->k,
                      .v = &a->v,
                      .gate = a->gate.data ? &a->gate : NULL,
                      .beta = a->beta.data ? &a->beta : NULL,
                      .out = &a->out,
                      .tiled_heads = a->tiled_heads,
                      .correct = !a->no_delta,
                      .norm = a->norm,
                      .eps = (float)a->eps,
                      .scale = (float)a->scale,
                      .rate = a->a_log,
                      .log_rate = true,
                      .bias = a->dt_bias,
                      .softplus = a->a_log != NULL,
                      .limited = a->a_log && (a->dt_min > 0 || a->dt_max < INFINITY),
                      .low = (float)a->dt_min,
                      .high = (float)a->dt_max,
                      .sigmoid = a->beta_sigmoid,
                      .beta_scale = (float)a->beta_scale};
    if (status == FOVEA_OK)
        status = fv_sequences_read(a->states, a->v.shape[0], a->v.shape[2], &rule->sequences);
    if (status != FOVEA_OK)
        return status;
    rule->sequences.heads = a->v.shape[1];
    rule->sequences.rows = a->k.shape[3];
    rule->sequences.columns = a->v.shape[3];
    if (a->scale == 0)
        rule->scale = 1 / sqrtf((float)a->k.shape[3]);
    return FOVEA_OK;
}

static fovea_status check(const fovea_delta_args *a, const fv_rule *rule, const void *workspace, size_t size) {
    const int64_t batch = a->v.shape[0], heads = a->v.shape[1], tokens = a->v.shape[2], k_dim = a->k.shape[3],
                  v_dim = a->v.shape[3], gates = a->gate.shape[3] == 1 ? 1 : k_dim;
    const fv_operand_rule tensors[] = {
        {"out", &a->out, {batch, fv_max(heads, a->q.shape[1]), tokens, v_dim}, true, false},
        {"q", &a->q, {batch, a->q.shape[1], tokens, k_dim}, false, false},
        {"k", &a->k, {batch, a->k.shape[1], tokens, k_dim}, false, false},
        {"v", &a->v, {batch, heads, tokens, v_dim}, false, false},
        {"gate", &a->gate, {batch, heads, tokens, gates}, false, true},
        {"beta", &a->beta, {batch, a->beta.shape[1] == 1 ? 1 : heads, tokens, 1}, false, true}};
    const fv_array_rule arrays[] = {{"a_log", a->a_log, heads}, {"dt_bias", a->dt_bias, heads * gates}};
    return fv_call_check(tensors, sizeof tensors / sizeof tensors[0], arrays, sizeof arrays / sizeof arrays[0],
                         &rule->sequences, workspace, size);
}

size_t fovea_gated_delta_rule_workspace_size(const fovea_context *ctx, const fovea_delta_args *args) {
    fovea_delta_args a;
    fv_rule rule;
    return read(ctx, args, &a, &rule) == FOVEA_OK ? (size_t)fv_max(fv_rule_bytes(&rule), 0) : 0;
}

fovea_status fovea_gated_delta_rule(const fovea_context *ctx, const fovea_delta_args *args, void *workspace,
                                    size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    fovea_delta_args a;
    fv_rule rule;
    fovea_status status = read(ctx, args, &a, &rule);
    if (status == FOVEA_OK)
        status = check(&a, &rule, workspace, workspace_size);
    return status == FOVEA_OK ? fv_rule_run(&rule, workspace, workspace_size) : status;
}
