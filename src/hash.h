/* A hash of bytes: FNV-1a of 64 bits. Finds damage and differences, not forgery. */
#ifndef FV_HASH_H
#define FV_HASH_H

#include <stddef.h>
#include <stdint.h>

#define FV_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t fv_hash(uint64_t hash, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
