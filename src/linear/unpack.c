/* Packed weights, back in rows (linear.h): what pack.c does, the other way. */
#include "core/core.h"
#include "linear/linear.h"

#include <string.h>

fovea_status fovea_linear_unpack(const fovea_linear *l, int64_t part, void *weight, float *bias, fovea_dtype *dtype) {
    if (!l)
        return fv_fail(FOVEA_ERROR_NULL, "linear is NULL");
    if (part < 0 || part >= l->part_count + l->gated)
        return fv_fail(FOVEA_ERROR_SHAPE, "part is %lld of %lld", (long long)part, (long long)l->part_count + l->gated);
    const fv_linear_part *p = &l->parts[part];
    const int64_t width = fv_linear_panel_out(l), first = l->gated ? 0 : p->first,
                  behind = l->gated && part > 0 ? width : 0; /* the gate */
    const size_t size = (size_t)fv_dtype_size(l->weight_dtype);
    for (int64_t j = 0; weight && j < p->out; j++) {
        const int64_t column = (first + j) / width * l->panel + behind + (first + j) % width;
        for (int64_t i = 0; i < l->in; i++)
            memcpy((char *)weight + (size_t)(j * l->in + i) * size,
                   (const char *)l->weights.data + (size_t)fv_operand_place(&l->weights, i, column) * size, size);
    }
    for (int64_t j = 0; bias && j < p->out; j++)
        bias[j] = p->bias ? p->bias[j] : -0.0f;
    if (dtype)
        *dtype = l->weight_dtype;
    return FOVEA_OK;
}
