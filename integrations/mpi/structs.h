/* Structs of callers, who may know an earlier version of them: they begin with struct_size. known: sizeof here. */
#ifndef FV_MPI_STRUCTS_H
#define FV_MPI_STRUCTS_H

#include "fovea/types.h"

#include <stddef.h>

/* A caller's struct over the defaults in *to; an error if it is NULL, or newer than this library. */
fovea_status fv_mpi_read_struct(void *to, const void *from, size_t known, const char *name);

#endif
