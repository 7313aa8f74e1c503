/* Choices that a context makes for a shape, its tuning file included (problem.h). */
#include "core/core.h"
#include "problem.h"

#include <stdlib.h>

void tune_weights(const tune_shape *shape, const void *zeros, fovea_quantization *quantization, fovea_matrix *weights) {
    enum { GROUP = 32 };
    const bool rows = fv_dtype_quantized(shape->dtype) && shape->dtype != FOVEA_DTYPE_I8;
    *weights = (fovea_matrix){
        .data = zeros, .dtype = shape->dtype, .in = shape->in, .out = shape->out, .in_stride = rows ? 1 : 0};
    fovea_quantization_init(quantization);
    if (!fv_dtype_scaled(shape->dtype))
        return;
    weights->quantization = quantization;
    if (rows) {
        quantization->group_size = GROUP;
        quantization->group_scales = zeros;
        quantization->scale_group_stride = 1;
        quantization->scale_dtype = FOVEA_DTYPE_F16;
    } else {
        quantization->scales = zeros;
    }
}

bool tune_map_make(const fovea_context *ctx, const tune_shape *shape, fovea_linear *map) {
    const fovea_dtype dtype = tune_x_dtype(shape);
    const bool grouped = fv_dtype_quantized(shape->dtype);
    static const float nothing; /* only the description of weights is looked at */
    fovea_quantization quantization;
    fovea_matrix weights;
    tune_weights(shape, &nothing, &quantization, &weights);
    *map = (fovea_linear){.gemm = fv_linear_gemm(ctx, shape->out, shape->dtype != FOVEA_DTYPE_F32),
                          .in = shape->in,
                          .out = shape->out,
                          .weight_dtype = shape->dtype,
                          .x_dtype = dtype,
                          .y_dtype = dtype,
                          .residual_dtype = dtype,
                          .grouped = grouped,
                          .arithmetic = grouped ? FOVEA_ARITHMETIC_Q16 : FOVEA_ARITHMETIC_EXACT};
    if (grouped)
        map->quantized = fv_quantized_of(&weights);
    fv_linear_select_kernels(map, ctx);
    map->panel = fv_linear_panel(map);
    map->panels = fv_ceil_div(shape->out, map->panel);
    return fv_linear_find_tuned(map, ctx);
}

fv_linear_choice tune_linear_choice(const fovea_linear *map, fv_tuning_op operation, int threads, int64_t rows,
                                    const tune_choice *requested, tune_choice *effect) {
    fv_linear_choice own = {0};
    if (requested)
        fv_tuning_to_choice(operation, requested->knob, &own);
    const fv_linear_choice made = fv_linear_heuristics(map, threads, rows, requested ? &own : NULL),
                           does = fv_linear_effect(map, threads, rows, &made);
    fv_tuning_of_choice(operation, &does, effect->knob);
    return made;
}

fovea_attention_plan *tune_attention_plan(const fovea_context *ctx, const fovea_attention_desc *desc,
                                          fv_tuning_op operation, const tune_choice *requested, tune_choice *effect) {
    fv_attention_choice own = {0};
    fovea_attention_plan *plan;
    if (requested)
        fv_tuning_to_choice(operation, requested->knob, &own);
    if (fv_attention_plan_create_chosen(ctx, desc, requested ? &own : NULL, &plan) != FOVEA_OK)
        return NULL;
    const fv_attention_choice does = fv_attention_effect(plan);
    fv_tuning_of_choice(operation, &does, effect->knob);
    return plan;
}

bool tune_choice_of(const fovea_context *ctx, const tune_shape *shape, const tune_choice *requested,
                    tune_choice *choice, tune_choice *effect) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op operation = tune_shape_keys(shape, key);
    if (shape->linear) {
        fovea_linear map;
        if (!tune_map_make(ctx, shape, &map))
            return false;
        const fv_linear_choice made =
            tune_linear_choice(&map, operation, ctx->threads.count, shape->rows, requested, effect);
        fv_tuning_of_choice(operation, &made, choice->knob);
        free(map.tuned);
        return true;
    }
    fovea_attention_plan *plan = tune_attention_plan(ctx, &shape->attention, operation, requested, effect);
    if (!plan)
        return false;
    fv_tuning_of_choice(operation, &plan->choice, choice->knob);
    fovea_attention_plan_destroy(plan);
    return true;
}

const char *tune_choice_text(fv_tuning_op operation, const fv_tuning_value *decided, const fv_tuning_value *values,
                             char *text, size_t size) {
    const fv_tuning_operation *o = fv_tuning_operations[operation];
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < o->knobs; i++) {
        char value[96];
        fv_tuning_value_text(&o->knob[i], &values[i], value, sizeof value);
        if ((decided[i].kernel || decided[i].number) && value[0])
            fv_text_add(text, size, &n, "%s%s=%s", n ? ", " : "", o->knob[i].name, value);
    }
    return text;
}
