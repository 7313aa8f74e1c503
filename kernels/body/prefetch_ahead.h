/* Addresses to fetch from. */
#ifndef FV_AHEAD_H
#define FV_AHEAD_H

#include <stdint.h>

/* p + floats, maybe past the array: to fetch from, not to read. */
static inline __attribute__((always_inline)) const float *fv_ahead(const float *p, int64_t floats) {
    return (const float *)((uintptr_t)p + (uintptr_t)floats * sizeof(float));
}

#endif
