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

fovea_status fovea_linear_unpack(const fovea_linear *l, int64_t part, void *weight, float *bias, fovea_dtype *dtype) {
    const fovea_status status = check_part(l, part);
    if (status != FOVEA_OK)
        return status;
    const fv_linear_part *p = &l->parts[part];
    for (int64_t j = 0; weight && j < p->out; j++)
        fv_unpack_any(&l->weights, column_of(l, part, j), (char *)weight + fv_dtype_bytes(l->weight_dtype, j * l->in));
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
    if (!l->scales)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "the packed weights are %s, which have no scales",
                       fv_enum_name(FV_ENUM_dtype, (int)l->weight_dtype));
    for (int64_t j = 0; j < l->parts[part].out; j++)
        scales[j] = l->scales[column_of(l, part, j)];
    return FOVEA_OK;
}
