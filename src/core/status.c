/* Status names and the last failure of each thread. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[256];

fovea_status fv_fail(fovea_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    return status;
}

fovea_status fv_pointers_check(const fv_pointer *pointers, int count) {
    for (int i = 0; i < count; i++)
        if (!pointers[i].at)
            return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", pointers[i].name);
    return FOVEA_OK;
}

fovea_status fv_saved_version_check(int64_t version, int newest) {
    if (version >> 32 == FOVEA_BITS_VERSION - 1 && (int32_t)version <= newest)
        return FOVEA_OK;
    return fv_fail(FOVEA_ERROR_VERSION,
                   "saved in version %d of the format and version %lld of the bits; this library has %d and %d: "
                   "compute the tokens again",
                   (int)(int32_t)version, (long long)(version >> 32) + 1, newest, FOVEA_BITS_VERSION);
}

const char *fovea_error_detail(void) { return detail; }

const char *fovea_version(void) { return FOVEA_VERSION_STRING; }

const char *fovea_status_name(fovea_status status) {
    static const char *const names[] = {
        [FOVEA_OK] = "FOVEA_OK",
        [FOVEA_ERROR_NULL] = "FOVEA_ERROR_NULL",
        [FOVEA_ERROR_SHAPE] = "FOVEA_ERROR_SHAPE",
        [FOVEA_ERROR_OVERFLOW] = "FOVEA_ERROR_OVERFLOW",
        [FOVEA_ERROR_STRIDE] = "FOVEA_ERROR_STRIDE",
        [FOVEA_ERROR_DTYPE] = "FOVEA_ERROR_DTYPE",
        [FOVEA_ERROR_ALIAS] = "FOVEA_ERROR_ALIAS",
        [FOVEA_ERROR_WORKSPACE] = "FOVEA_ERROR_WORKSPACE",
        [FOVEA_ERROR_VERSION] = "FOVEA_ERROR_VERSION",
        [FOVEA_ERROR_ARGUMENT] = "FOVEA_ERROR_ARGUMENT",
        [FOVEA_ERROR_ENVIRONMENT] = "FOVEA_ERROR_ENVIRONMENT",
        [FOVEA_ERROR_UNSUPPORTED] = "FOVEA_ERROR_UNSUPPORTED",
        [FOVEA_ERROR_OUT_OF_MEMORY] = "FOVEA_ERROR_OUT_OF_MEMORY",
        [FOVEA_ERROR_FILE] = "FOVEA_ERROR_FILE",
        [FOVEA_ERROR_TUNING] = "FOVEA_ERROR_TUNING",
        [FOVEA_ERROR_INCOMPATIBLE] = "FOVEA_ERROR_INCOMPATIBLE",
        [FOVEA_ERROR_BUSY] = "FOVEA_ERROR_BUSY",
        [FOVEA_ERROR_FULL] = "FOVEA_ERROR_FULL",
    };
    const unsigned index = (unsigned)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown status";
}
