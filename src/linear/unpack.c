/* Packed weights, back in rows (linear.h): what pack.c does, the other way. */
#include "core/core.h"
#include "linear/linear.h"

static fovea_status check_part(const fovea_linear *l, int64_t part) {
    if (!l)
        return fv_fail(FOVEA_ERROR_NULL, "linear is NULL");
    if (part < 0 || part >= l->part_count + l->gated)
        return fv_fail(FOVEA_ERROR_SHAPE, "part is %lld of %lld", (long long)part, (long long)l->part_count + l->gated);
    return FOVEA_OK;
}

/* The packed column of channel j of a part. */
static int64_t column_of(const fovea_linear *l, int64_t part, int64_t j) {
    const int64_t width = fv_linear_panel_out(l), column = (l->gated ? 0 : l->parts[part].first) + j;
    return column / width * l->panel + column % width + (l->gated && part > 0 ? width : 0); /* behind the gate */
}

/* Column j of a part of weights in groups; each output or NULL. */
static void unpack_groups(const fovea_linear *l, int64_t part, int64_t j, void *integers, void *scales,
                          uint8_t *zeros) {
    const int64_t column = column_of(l, part, j), panel = column / l->panel;
    fv_quantized_unpack(&l->quantized, l->weight_dtype, l->in, l->given.group_size, l->panel, column % l->panel,
                        (const char *)l->memory + panel * l->weights.panel * 4, integers, scales, zeros);
}

fovea_status fovea_linear_unpack(const fovea_linear *l, int64_t part, void *weight, float *bias, fovea_dtype *dtype) {
    const fovea_status status = check_part(l, part);
    if (status != FOVEA_OK)
        return status;
    const fv_linear_part *p = &l->parts[part];
    const int64_t row_bytes = fv_dtype_bytes(l->weight_dtype, l->in + (l->weight_dtype == FOVEA_DTYPE_U4 && l->in % 2));
    for (int64_t j = 0; weight && j < p->out; j++) {
        char *row = (char *)weight + j * row_bytes;
        if (l->grouped)
            unpack_groups(l, part, j, row, NULL, NULL);
        else
            fv_unpack_any(&l->weights, column_of(l, part, j), row);
    }
    for (int64_t j = 0; bias && j < p->out; j++)
        bias[j] = p->bias ? p->bias[j] : -0.0f;
    if (dtype)
        *dtype = l->weight_dtype;
    return FOVEA_OK;
}

fovea_status fovea_linear_unpack_scales(const fovea_linear *l, int64_t part, float *scales) {
    const fovea_status status = check_part(l, part);
    if (status != FOVEA_OK)
        return status;
    if (!scales)
        return fv_fail(FOVEA_ERROR_NULL, "scales is NULL");
    if (!l->scales && !(l->grouped && l->given.scales))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "the packed weights are %s, which have no scale for each output channel",
                       fv_enum_name(FV_ENUM_dtype, (int)l->weight_dtype));
    for (int64_t j = 0; j < l->parts[part].out; j++)
        if (l->grouped)
            unpack_groups(l, part, j, NULL, scales + j, NULL);
        else
            scales[j] = l->scales[column_of(l, part, j)];
    return FOVEA_OK;
}

fovea_status fovea_linear_unpack_groups(const fovea_linear *l, int64_t part, fovea_quantization *quantization,
                                        void *scales, uint8_t *zeros, int32_t *group_of) {
    fovea_status status = check_part(l, part);
    if (status != FOVEA_OK)
        return status;
    if (quantization)
        status = fv_struct_check(FV_STRUCT(fovea_quantization), quantization);
    if (status != FOVEA_OK)
        return status;
    if (!l->grouped || !fv_dtype_scaled(l->weight_dtype))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "the packed weights are %s, which have no groups with separate scales",
                       fv_enum_name(FV_ENUM_dtype, (int)l->weight_dtype));
    const int64_t groups = l->given.group_size ? l->in / l->given.group_size : 1;
    const int64_t size = fv_dtype_size(l->given.scales ? FOVEA_DTYPE_F32 : l->given.scale_dtype);
    const bool has_zeros = l->weights.group.extra == FV_GROUP_zero;
    for (int64_t j = 0; j < l->parts[part].out; j++)
        unpack_groups(l, part, j, NULL, scales ? (char *)scales + j * groups * size : NULL,
                      zeros && has_zeros ? zeros + j * groups : NULL);
    for (int64_t t = 0; t < l->in && group_of && l->order; t++)
        group_of[l->order[t]] = (int32_t)(t / l->given.group_size);
    if (quantization) {
        fovea_quantization own = {.group_size = l->given.group_size,
                                  .scale_dtype = l->given.scales ? FOVEA_DTYPE_F32 : l->given.scale_dtype,
                                  .zeros = has_zeros ? zeros : NULL,
                                  .group_of = l->order ? group_of : NULL};
        if (l->given.scales)
            own.scales = scales;
        else
            own.group_scales = scales;
        fv_struct_write(FV_STRUCT(fovea_quantization), quantization, &own);
    }
    return FOVEA_OK;
}

size_t fovea_linear_weight_bytes(const fovea_linear *l) {
    if (!l)
        return 0;
    const int64_t scales = l->scales ? l->weights.columns * (int64_t)sizeof *l->scales : 0;
    return (size_t)(l->panels * fv_linear_panel_bytes(l) + scales);
}
