/* Checks of plain arrays (arrays.h). */
#include "arrays/arrays.h"
#include "core/core.h"

#include <inttypes.h>

static fovea_status span_of(int64_t n, const fv_array *array, fv_span *span) {
    int64_t bytes;
    if (!array->data)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", array->name);
    if (!fv_multiply(n, array->size, &bytes))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "n %" PRId64 ": too large", n);
    const uintptr_t begin = (uintptr_t)array->data;
    *span = (fv_span){array->name, begin, begin + (uintptr_t)bytes};
    return FOVEA_OK;
}

fovea_status fv_arrays_check(int64_t n, const fv_array *from, const fv_array *to, bool in_place,
                             const fovea_context **ctx) {
    fv_span in, out;
    if (n < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "n %" PRId64 " is negative", n);
    if (n == 0)
        return FOVEA_OK;
    fovea_status status = span_of(n, from, &in);
    if (status == FOVEA_OK)
        status = span_of(n, to, &out);
    if (status == FOVEA_OK && !(in_place && from->data == to->data))
        status = fv_spans_disjoint(&out, &in);
    return status == FOVEA_OK ? fv_context_default(ctx) : status;
}
