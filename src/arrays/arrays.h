/* Common parts of functions of plain arrays (fovea/arrays.h), and conversions for other modules. */
#ifndef FV_ARRAYS_H
#define FV_ARRAYS_H

#include "context/context.h"
#include "dispatch/dispatch.h"

#include <stdbool.h>

/* One of two arrays of n elements. */
typedef struct fv_array {
    const char *name;
    const void *data;
    int64_t size; /* of an element, in bytes */
} fv_array;

/* Checks the arrays of such a function, of which n > 0, and gives the default context. in_place: they may be the
 * same. */
fovea_status fv_arrays_check(int64_t n, const fv_array *from, const fv_array *to, bool in_place,
                             const fovea_context **ctx);

/* Is it a type that conversions take? who: "fovea_convert", for the sentence. */
fovea_status fv_convert_check(const char *name, fovea_dtype dtype, const char *who);

/* The way from one such type to another, as fovea_convert() goes it. */
typedef struct fv_converter {
    fv_widen_bf16_fn *widen;   /* NULL: from float32 */
    fv_narrow_bf16_fn *narrow; /* NULL: to float32 */
    bool same;
    int64_t from_size, to_size; /* of an element, in bytes */
} fv_converter;

fv_converter fv_converter_make(fovea_dtype from, fovea_dtype to, fv_target target);

/* n elements; from may be to where the types are the same. */
void fv_convert(const fv_converter *converter, int64_t n, const void *from, void *to);

/* Its first half, and its second. */
void fv_convert_to_floats(const fv_converter *converter, int64_t n, const void *from, float *to);
void fv_convert_of_floats(const fv_converter *converter, int64_t n, const float *from, void *to);

#endif
