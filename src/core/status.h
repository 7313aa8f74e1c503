/* Failures: a status and a sentence for the calling thread. */
#ifndef FV_STATUS_H
#define FV_STATUS_H

#include "core/text.h"
#include "fovea/fovea.h"

/* Keeps the sentence for fovea_error_detail() and returns status, so that a check reads: return fv_fail(...). */
FV_PRINTF(2, 3)
fovea_status fv_fail(fovea_status status, const char *format, ...);

/* Fails if one of count pointers is NULL. */
typedef struct fv_pointer {
    const char *name;
    const void *at;
} fv_pointer;
fovea_status fv_pointers_check(const fv_pointer *pointers, int count);

/* Fails unless a saved object has this library's bits, and a format of up to newest. The lower half of what it saved as
 * its version is the format; the upper one is FOVEA_BITS_VERSION - 1: 0 in files from before that had a number. */
fovea_status fv_saved_version_check(int64_t version, int newest);
#define FV_SAVED_VERSION(format) ((int64_t)(FOVEA_BITS_VERSION - 1) << 32 | (format))

/* The ending of a counted noun: "%lld head%s". */
static inline const char *fv_plural(int64_t count) { return count == 1 ? "" : "s"; }

#endif
