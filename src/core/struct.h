/* Structs of the interface that may grow (fovea/types.h): the caller's may be older, and then shorter, than this
 * library's.
 *
 * Fields are only ever added at the end, and no struct ends with padding: a byte that an older caller has is a field
 * that it knows. */
#ifndef FV_STRUCT_H
#define FV_STRUCT_H

#include "fovea/types.h"

#include <stddef.h>

/* The size of a struct that ended with this field. */
#define FV_STRUCT_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* A struct as this library knows it. */
typedef struct fv_struct {
    const char *name;
    size_t size;  /* this library's */
    size_t least; /* that of the first version with this interface, 0.2 */
} fv_struct;

/* Use as FV_STRUCT(fovea_info, tuning): last is the last field of version 0.2. */
#define FV_STRUCT(type, last) ((fv_struct){#type, sizeof(type), FV_STRUCT_SIZE(type, last)})

/* Fills the caller's struct of size bytes: defaults, as far as both know, zeros, and struct_size. NULL is ignored. */
void fv_struct_init(void *given, size_t size, const void *defaults, size_t known);

/* FOVEA_OK if the library knows such a struct_size, else FOVEA_ERROR_VERSION. */
fovea_status fv_struct_check(fv_struct type, const void *given);

/* The same, and copies what the caller has over own, which holds the defaults. own->struct_size is that of the
 * library. */
fovea_status fv_struct_read(fv_struct type, const void *given, void *own);

/* Copies what was filled to the caller's checked struct, as far as it goes; its struct_size stays. */
void fv_struct_write(fv_struct type, void *given, const void *own);

#endif
