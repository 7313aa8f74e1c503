/* Plans: made from a description, by the row of a tuning file or by defaults (heuristics.c), and laid out
 * (layout.c). */
#include "attention/plan/plan.h"

#include "attention/plan/buckets.h"
#include "attention/plan/tuning.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <stdlib.h>

/* Kernels of the named arithmetics. */
static void select_arithmetic(fovea_attention_plan *plan) {
    const fv_target target = plan->ctx->target;
    if (plan->desc.arithmetic != FOVEA_ARITHMETIC_EXACT && plan->desc.v_dtype != FOVEA_DTYPE_I8)
        plan->kernels.softmax = fv_kernel_best(FV_OP_softmax, FV_TYPE_bf16, target)->run.softmax_bf16;
    if (plan->desc.arithmetic != FOVEA_ARITHMETIC_BF16_TILE)
        return;
    plan->kernels.score = plan->kernels.value =
        fv_multiply_best(FV_KIND_f32_amx_order, FV_FORMAT_f32, target)->run.multiply;
    plan->kernels.value_skip = fv_multiply_best(FV_KIND_f32_amx_order_masked, FV_FORMAT_f32, target)->run.multiply;
}

/* Scores of 16 bits by pairs, where the CPU multiplies them faster than floats. The scale, which has to be positive, is
 * added to the exponents of bfloat16. Of float16 it multiplies scores: it has to be so near to 1 that nothing overflows
 * or is subnormal. */
static void select_pairs(fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const fv_target target = plan->ctx->target;
    const fv_type type = fv_type_of(d->dtype);
    plan->tiles = fv_attention_tiles(plan);
    if (type == FV_TYPE_f32 || d->k_dtype != d->dtype)
        return;
    const bool bf16 = type == FV_TYPE_bf16;
    const fv_kernel *multiply = fv_multiply_pairs(type, target);
    const bool scales = plan->scale.q >= (bf16 ? 0x1p-126f : 0x1p-24f) && (bf16 || plan->scale.q <= 0x1p24f);
    const bool pairs = d->arithmetic != FOVEA_ARITHMETIC_BF16_TILE && multiply->isa != FV_ISA_scalar &&
                       plan->ctx->cpu.fast_pairs && scales;
    if (!pairs && !(plan->tiles && scales))
        return;
    plan->pairs = plan->tiles ? plan->tiles : multiply;
    if (d->v_dtype == FOVEA_DTYPE_BF16 && (plan->tiles || d->arithmetic == FOVEA_ARITHMETIC_BF16)) {
        plan->kernels.value_pairs = plan->pairs->run.multiply;
        plan->kernels.pack_v = fv_pack_best(FV_SOURCE_steps, FV_FORMAT_bf16x2, target)->run.pack;
    }
    plan->kernels.pack_pairs =
        fv_pack_best(FV_SOURCE_columns, bf16 ? FV_FORMAT_bf16x2 : FV_FORMAT_f16x2x4, target)->run.pack;
    if (bf16)
        plan->kernels.pack_q = fv_pack_best(FV_SOURCE_rows, FV_FORMAT_bf16x2, target)->run.pack;
    plan->pair_words = fv_ceil_div(d->head_dim, 2);
}

/* Kernels for keys and values as they lie: for few rows, of float32 in rows up to FV_FEW_ROWS, and for int8, whose
 * arithmetic no others have. Of float32 values only a tier whose registers hold the chains of 128 columns has one, for
 * hardware that prefetches them (decode.h). */
static void select_decode(fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const fv_target target = plan->ctx->target;
    const fv_type k = fv_type_of(d->k_dtype), v = fv_type_of(d->v_dtype);
    const int64_t rows = plan->choice.block_rows;
    const bool few =
        d->arithmetic != FOVEA_ARITHMETIC_BF16_TILE && rows <= FV_ATTENTION_FEW_ROWS && rows <= plan->choice.tile_rows;
    const fv_format interleaved = fv_format_interleaved(d->k_dtype);
    if (fv_integers(d))
        plan->kernels.score_groups = fv_multiply_few(FV_KIND_i16, interleaved, target)->run.multiply;
    else if (few && (k != FV_TYPE_f32 || rows <= FV_FEW_ROWS))
        plan->kernels.score_rows = fv_multiply_few(FV_KIND_f32, fv_format_in_rows(d->k_dtype), target)->run.multiply;
    if (few && k == FV_TYPE_bf16 && plan->ctx->cpu.fast_pairs) {
        const fv_kernel *groups = fv_multiply_few(FV_KIND_f32, interleaved, target);
        plan->kernels.score_groups = groups->isa != FV_ISA_scalar ? groups->run.multiply : NULL;
    }
    if (few && k == FV_TYPE_f32)
        plan->kernels.score_interleaved = fv_multiply_for_panel(target, rows, FV_KEY_GROUP)->run.multiply;
    else if (few && !plan->kernels.score_groups)
        plan->kernels.score_interleaved = fv_multiply_best(FV_KIND_f32, interleaved, target)->run.multiply;
    if (k == FV_TYPE_bf16)
        plan->kernels.unpack_k = fv_unpack_best(interleaved, target)->run.unpack;
    if (d->v_dtype == FOVEA_DTYPE_I8)
        plan->kernels.value_few = fv_multiply_few(FV_KIND_f32, FV_FORMAT_i8, target)->run.multiply;
    else if (plan->kernels.score_rows || (few && fv_integers(d))) {
        const fv_kernel *values = fv_multiply_few(FV_KIND_f32, fv_format_as_it_lies(d->v_dtype), target);
        if (v != FV_TYPE_f32 ||
            (values->isa != FV_ISA_scalar && plan->choice.block_rows <= fv_prefetched_rows(d->k_dtype)))
            plan->kernels.value_few = values->run.multiply;
    }
}

static void select_kernels(fovea_attention_plan *plan) {
    const fv_target target = plan->ctx->target;
    const fovea_attention_desc *d = &plan->desc;
    plan->kernels = (fv_attention_kernels){
        .score = plan->choice.score->run.multiply,
        .value = plan->choice.value->run.multiply,
        .value_skip = fv_multiply_best(FV_KIND_f32_masked, FV_FORMAT_f32, target)->run.multiply,
        .scale = fv_kernel_best(FV_OP_scale, FV_TYPE_f32, target)->run.scale_f32,
        .copy = fv_kernel_best(FV_OP_copy, FV_TYPE_f32, target)->run.copy_f32,
        .pack = fv_pack_best(FV_SOURCE_columns, FV_FORMAT_f32, target)->run.pack,
        .softmax = fv_kernel_best(FV_OP_softmax, FV_TYPE_f32, target)->run.softmax_f32,
        .merge = fv_kernel_best(FV_OP_merge, FV_TYPE_f32, target)->run.merge_f32,
        .accumulate = fv_kernel_best(FV_OP_accumulate, FV_TYPE_f32, target)->run.accumulate_f32,
        .finish = fv_kernel_best(FV_OP_finish, FV_TYPE_f32, target)->run.finish_f32,
        .mask_to_bits = fv_kernel_best(FV_OP_mask_to_bits, FV_TYPE_u8, target)->run.mask_to_bits_u8,
        .add_mask = fv_kernel_best(FV_OP_add_mask, FV_TYPE_f32, target)->run.add_mask_f32,
        .softcap = fv_kernel_best(FV_OP_softcap, FV_TYPE_f32, target)->run.softcap_f32,
        .weights = fv_kernel_best(FV_OP_weights, FV_TYPE_f32, target)->run.weights_f32,
        .weight_sums = fv_kernel_best(FV_OP_weight_sums, FV_TYPE_f32, target)->run.weight_sums_f32,
        .finite = fv_kernel_best(FV_OP_finite, FV_TYPE_f32, target)->run.finite_f32,
        .widen_q = fv_widen_of(d->dtype, target),
        .widen_k = fv_widen_of(d->k_dtype, target),
        .widen_v = fv_widen_of(d->v_dtype, target),
        .narrow_out = fv_narrow_of(d->out_dtype, target),
    };
}

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
    made->scale = split_scale((float)(desc->has_scale ? desc->scale : 1.0 / sqrt((double)desc->head_dim)));
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
    const bool by_file = made->tuned || (!made->chosen && ctx->tuning.cache_scale != 100);
    if (by_file && made->choice.split_segments > 0 && fv_attention_partials_large(made)) {
        const fv_attention_choice kernels = {.score = tuned.score, .value = tuned.value, .cache_scale = 100};
        fv_attention_heuristics(made, &kernels);
        made->kernels_only = true;
    }
    select_kernels(made);
    select_arithmetic(made);
    select_decode(made);
    if (!made->kernels.score_rows && !fv_integers(&made->desc))
        select_pairs(made);
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
