/* Sizes and arithmetic that all files of libfovea_mpi share. */
#ifndef FV_MPI_UNITS_H
#define FV_MPI_UNITS_H

#include "fovea/types.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FV_MPI_SEGMENT = 256, /* keys that are computed and stored together */
    FV_MPI_UNIT = 64      /* bytes: messages are multiples of it, memory is aligned to it */
};

/* Bytes of a message, or of a call's messages together: counts and places of MPI are int, of FV_MPI_UNIT bytes. */
#define FV_MPI_MESSAGES_MOST ((int64_t)INT32_MAX * FV_MPI_UNIT)

static inline int64_t fv_mpi_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fv_mpi_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fv_mpi_clamp(int64_t x, int64_t low, int64_t high) {
    return fv_mpi_max(low, fv_mpi_min(x, high));
}
static inline int64_t fv_mpi_ceil(int64_t n, int64_t by) { return n / by + (n % by != 0); }
static inline int64_t fv_mpi_units(int64_t bytes) { return fv_mpi_ceil(bytes, FV_MPI_UNIT) * FV_MPI_UNIT; }

/* Bytes of an element of a tensor, or of a key in a cache. */
static inline int64_t fv_mpi_element(fovea_dtype dtype) {
    const fovea_dtype_facts *facts = fovea_dtype_info(dtype);
    return facts ? facts->bits / 8 : 0; /* others are refused */
}

#endif
