/* Plans: made from a description, by the row of a tuning file or by defaults (heuristics.c), and laid out
 * (layout.c). */
#include "attention/plan/plan.h"

#include "attention/plan/buckets.h"
#include "attention/plan/knobs.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <stdlib.h>

/* scale = q * c, as kernels.h has it. */
static fv_scale split_scale(float scale) {
    int exponent;
    const double part = frexp((double)scale, &exponent); /* from 1/2 to less than 1, or 0 */
    if (part == 0.0)
        return (fv_scale){scale, 1.0f};
    return (fv_scale){(float)copysign(ldexp(1.0, exponent - 1), part), (float)(2.0 * fabs(part))};
}

fovea_status fv_attention_plan_make(const fovea_context *ctx, const fovea_attention_desc *given_desc,
                                    const fv_attention_choice *choice, int64_t caller_bytes,
                                    fovea_attention_plan **plan) {
    fovea_attention_desc own = *given_desc;
    const fovea_attention_desc *desc = &own;
    const int64_t buckets = fv_relative_buckets(desc);
    fovea_attention_plan *made = calloc(1, sizeof *made + (size_t)buckets * sizeof made->bucket_starts[0]);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a plan (%zu bytes)", sizeof *made);
    made->ctx = ctx;
    if (fv_attention_empty(given_desc)) /* planned as if it had a row */
        own.batch = own.q_heads = own.kv_heads = own.q_len = own.kv_len = 1;
    made->desc = *desc;
    made->group = desc->q_heads / desc->kv_heads;
    made->rows = made->group * desc->q_len;
    if (buckets > 0)
        fv_relative_bucket_starts(desc, made->bucket_starts);
    const fv_float_mode mode = fv_float_mode_now();
    if (made->desc.arithmetic != FOVEA_ARITHMETIC_EXACT) /* the mode is part of it */
        fv_float_plain();
    made->ops = &ctx->ops;
    made->sources = (fv_sources){
        .ops = &ctx->ops, .cpu = &ctx->cpu, .target = ctx->target, .desc = &made->desc, .choice = &made->choice};
    made->sources.scale = split_scale((float)(desc->has_scale ? desc->scale : 1.0 / sqrt((double)desc->head_dim)));
    fv_float_mode_set(&mode);
    fv_attention_choice tuned = {0};
    char why[640];
    if (choice)
        made->chosen = true;
    else if ((made->tuned = fv_attention_tuning_row(ctx, desc, why, sizeof why)) != NULL) {
        fv_tuning_to_choice(made->tuned->operation, made->tuned->knob, &tuned);
        choice = &tuned;
    }
    if (desc->window_left < 0 || desc->window_left > FV_NO_LIMIT)
        made->desc.window_left = FV_NO_LIMIT;
    if (desc->window_right < 0 || desc->window_right > FV_NO_LIMIT)
        made->desc.window_right = FV_NO_LIMIT;
    fv_attention_heuristics(made, choice);
    if (made->tuned && fv_attention_sizes_large(made)) {
        tuned.block_rows = tuned.tile_rows = tuned.split_segments = tuned.cache_scale = 0;
        fv_attention_heuristics(made, &tuned);
        made->usual_sizes = true;
    }
    made->softmax = fv_sources_round_weights(&made->sources) ? ctx->ops.softmax_bf16 : ctx->ops.softmax;
    if (!fv_attention_lay_out(made, caller_bytes)) {
        free(made);
        return fv_fail(FOVEA_ERROR_OVERFLOW, "head_dim %lld, value_dim %lld: the workspace is too large",
                       (long long)desc->head_dim, (long long)desc->value_dim);
    }
    if (fv_attention_empty(given_desc)) {
        made->desc = *given_desc;
        made->row_blocks = 0;
    }
    if (ctx->debug)
        fv_attention_plan_debug(made);
    *plan = made;
    return FOVEA_OK;
}
