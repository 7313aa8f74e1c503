/* What a context decides for a shape, its tuning file included (problem.h). */
#include "core/core.h"
#include "problem.h"

#include <stdlib.h>

bool tune_map_make(const fovea_context *ctx, const tune_shape *shape, fovea_linear *map) {
    const fovea_dtype dtype = tune_x_dtype(shape);
    *map = (fovea_linear){.ctx = ctx,
                          .gemm = fv_linear_gemm(ctx, shape->out, shape->dtype != FOVEA_DTYPE_F32),
                          .in = shape->in,
                          .out = shape->out,
                          .weight_dtype = shape->dtype,
                          .x_dtype = dtype,
                          .y_dtype = dtype,
                          .residual_dtype = dtype};
    fv_linear_select_kernels(map);
    map->panel = fv_linear_panel(map);
    map->widened = fv_linear_widened(map);
    const bool found = fv_linear_find_tuned(map);
    const fv_linear_choice choice = fv_linear_heuristics(map, shape->rows, NULL);
    map->bytes = fv_linear_workspace(map, &choice);
    return found;
}

bool tune_choice_of(const fovea_context *ctx, const tune_shape *shape, tune_choice *choice) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op operation = tune_shape_keys(shape, key);
    if (shape->linear) {
        fovea_linear map;
        const bool found = tune_map_make(ctx, shape, &map);
        const fv_linear_choice made = fv_linear_heuristics(&map, shape->rows, NULL);
        fv_tuning_of_choice(operation, &made, choice->knob);
        choice->cache_scale = made.cache_scale;
        free(map.tuned);
        return found;
    }
    fovea_attention_plan *plan;
    if (fovea_attention_plan_create(ctx, &shape->attention, &plan) != FOVEA_OK)
        return false;
    fv_tuning_of_choice(operation, &plan->choice, choice->knob);
    choice->cache_scale = plan->choice.cache_scale;
    fovea_attention_plan_destroy(plan);
    return true;
}
