/* How integers of a matrix represent numbers (fovea/types.h). */
#include "core/core.h"

void fovea_quantisation_init_size(fovea_quantisation *q, size_t size) {
    const fovea_quantisation defaults = {.scale_dtype = FOVEA_DTYPE_F32};
    fv_struct_init(q, size, &defaults, sizeof defaults);
}

fovea_status fv_quantisation_check(const fovea_matrix *m, const char *name) {
    const fovea_quantisation *q = m->quantisation;
    const char *dtype = fv_enum_name(FV_ENUM_dtype, (int)m->dtype);
    if (!fv_dtype_scaled(m->dtype))
        return !q ? FOVEA_OK : fv_fail(FOVEA_ERROR_DTYPE, "%s has a quantisation, but its dtype is %s", name, dtype);
    if (!q)
        return fv_fail(FOVEA_ERROR_NULL, "%s is %s, but has no quantisation: its scales are needed", name, dtype);
    const fovea_status status = fv_struct_check(FV_STRUCT(fovea_quantisation), q);
    if (status != FOVEA_OK)
        return status;
    return q->scales ? FOVEA_OK : fv_fail(FOVEA_ERROR_NULL, "%s: the scales of its quantisation are NULL", name);
}
