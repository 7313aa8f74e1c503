/* FNV-1a, 64 bits: the hash of Fowler, Noll and Vo (http://www.isthe.com/chongo/tech/comp/fnv/), one byte after
 * another. Begin with FNV_START. Numbers are taken by their bytes from the lowest on, so that the machine's order is no
 * matter. */
#ifndef FOVEA_TESTS_FNV_H
#define FOVEA_TESTS_FNV_H

#include "core/core.h" /* the library's own, byte by byte */

#define FNV_START FV_HASH_BEGIN

static inline uint64_t fnv_byte(uint64_t hash, uint8_t byte) { return fv_hash_byte(hash, byte); }

static inline uint64_t fnv_bytes(uint64_t hash, const void *data, int64_t n) { return fv_hash(hash, data, (size_t)n); }

static inline uint64_t fnv_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = fnv_byte(hash, (uint8_t)*text);
    return hash;
}

static inline uint64_t fnv_u32(uint64_t hash, uint32_t x) {
    for (int shift = 0; shift < 32; shift += 8)
        hash = fnv_byte(hash, (uint8_t)(x >> shift));
    return hash;
}

static inline uint64_t fnv_u64(uint64_t hash, uint64_t x) {
    return fnv_u32(fnv_u32(hash, (uint32_t)x), (uint32_t)(x >> 32));
}

#endif
