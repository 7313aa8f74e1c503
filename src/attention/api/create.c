/* Plans as the public functions make them: with what a call over pages needs besides the flash loop. */
#include "attention/api/paged.h"
#include "attention/api/shared.h"
#include "attention/plan/plan.h"
#include "core/core.h"

#include <stdlib.h>

/* The workspace that api/ uses itself: tables of pages, then shared prefixes; -1: more than memory. */
static int64_t caller_bytes(const fovea_attention_desc *desc, const fovea_attention_plan *prefix) {
    const int64_t pages = fv_paged_bytes(desc), shared = fv_shared_bytes(desc, prefix);
    int64_t bytes = -1;
    return pages >= 0 && shared >= 0 && fv_add(pages, shared, &bytes) ? bytes : -1;
}

fovea_status fv_attention_plan_create_chosen(const fovea_context *ctx, const fovea_attention_desc *given,
                                             const fv_attention_choice *choice, fovea_attention_plan **plan) {
    if (!plan)
        return fv_fail(FOVEA_ERROR_NULL, "plan is NULL");
    *plan = NULL;
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    fovea_attention_desc own;
    fovea_status status = fv_attention_read_desc(given, &own);
    if (status == FOVEA_OK)
        status = fv_attention_select_arithmetic(ctx, &own);
    fovea_attention_plan *prefix = NULL;
    if (status == FOVEA_OK)
        status = fv_shared_plan(ctx, &own, &prefix);
    if (status == FOVEA_OK)
        status = fv_attention_plan_make(ctx, &own, choice, caller_bytes(&own, prefix), plan);
    if (status == FOVEA_OK)
        (*plan)->prefix = prefix;
    else
        fovea_attention_plan_destroy(prefix);
    return status;
}

fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                         fovea_attention_plan **plan) {
    FV_HOLD_EXCEPTIONS();
    return fv_attention_plan_create_chosen(ctx, desc, NULL, plan);
}

void fovea_attention_plan_destroy(fovea_attention_plan *plan) {
    if (plan)
        fovea_attention_plan_destroy(plan->prefix);
    free(plan);
}

fovea_arithmetic fovea_attention_plan_arithmetic(const fovea_attention_plan *plan) {
    return plan ? plan->desc.arithmetic : FOVEA_ARITHMETIC_EXACT;
}

size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan) { return plan ? (size_t)plan->bytes : 0; }
