/* What functions of plain arrays have in common (fovea/arrays.h). */
#ifndef FV_ARRAYS_H
#define FV_ARRAYS_H

#include "context/context.h"

#include <stdbool.h>

/* One of two arrays of n elements. */
typedef struct fv_array {
    const char *name;
    const void *data;
    int64_t size; /* of an element, in bytes */
} fv_array;

/* Checks the arrays of such a function, of which n > 0, and gives the default context. in_place: they may be the same. */
fovea_status fv_arrays_check(int64_t n, const fv_array *from, const fv_array *to, bool in_place,
                             const fovea_context **ctx);

#endif
