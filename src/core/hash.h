/* A hash of bytes: FNV-1a of 64 bits. Finds damage and differences, not forgery. */
#ifndef FV_HASH_H
#define FV_HASH_H

#include <stddef.h>
#include <stdint.h>

#define FV_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t fv_hash_byte(uint64_t hash, uint8_t byte) { return (hash ^ byte) * UINT64_C(0x100000001b3); }

static inline uint64_t fv_hash(uint64_t hash, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = fv_hash_byte(hash, (uint8_t)bytes[i]);
    return hash;
}

#endif
