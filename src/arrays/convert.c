/* fovea_convert (fovea/arrays.h), and its parts for others (arrays.h). */
#include "arrays/arrays.h"
#include "core/core.h"

#include <stdio.h>
#include <string.h>

fovea_status fv_convert_check(const char *name, fovea_dtype dtype, const char *who) {
    char takes[128];
    if (fv_type_of(dtype) != FV_TYPE_COUNT)
        return FOVEA_OK;
    snprintf(takes, sizeof takes, "%s takes FOVEA_DTYPE_F32, _BF16 and _F16", who);
    return fv_dtype_refuse(name, dtype, takes);
}

fv_converter fv_converter_make(fovea_dtype from, fovea_dtype to, fv_target target) {
    return (fv_converter){.widen = fv_widen_of(from, target),
                          .narrow = fv_narrow_of(to, target),
                          .same = from == to,
                          .from_size = fv_dtype_size(from),
                          .to_size = fv_dtype_size(to)};
}

void fv_convert_to_floats(const fv_converter *c, int64_t n, const void *from, float *to) {
    if (c->widen)
        c->widen(1, n, from, n, to, n);
    else
        memcpy(to, from, (size_t)n * sizeof(float));
}

void fv_convert_of_floats(const fv_converter *c, int64_t n, const float *from, void *to) {
    if (c->narrow)
        c->narrow(1, n, from, n, to, n);
    else
        memcpy(to, from, (size_t)n * sizeof(float));
}

void fv_convert(const fv_converter *c, int64_t n, const void *from, void *to) {
    enum { PART = 512 };
    if (n <= 0)
        return;
    if (c->same)
        memmove(to, from, (size_t)(n * c->from_size));
    else if (!c->widen)
        fv_convert_of_floats(c, n, from, to);
    else if (!c->narrow)
        fv_convert_to_floats(c, n, from, to);
    else
        for (int64_t at = 0, count; at < n; at += count) {
            float floats[PART];
            count = fv_min(n - at, PART);
            fv_convert_to_floats(c, count, (const char *)from + at * c->from_size, floats);
            fv_convert_of_floats(c, count, floats, (char *)to + at * c->to_size);
        }
}

fovea_status fovea_convert(int64_t n, const void *from, fovea_dtype from_dtype, void *to, fovea_dtype to_dtype) {
    fovea_status status = fv_convert_check("from_dtype", from_dtype, "fovea_convert");
    if (status == FOVEA_OK)
        status = fv_convert_check("to_dtype", to_dtype, "fovea_convert");
    if (status != FOVEA_OK)
        return status;
    const fv_array in = {"from", from, fv_dtype_size(from_dtype)}, out = {"to", to, fv_dtype_size(to_dtype)};
    const fovea_context *ctx;
    status = fv_arrays_check(n, &in, &out, from_dtype == to_dtype, &ctx);
    if (status != FOVEA_OK || n == 0)
        return status;
    const fv_converter converter = fv_converter_make(from_dtype, to_dtype, ctx->target);
    fv_convert(&converter, n, from, to);
    return FOVEA_OK;
}
