/* Products of many rows on avx512: instantiated as the body is, with tiles in assembly (multiply_tiles.S) where the
 * build has them. Sanitizers do not see what assembly reads and writes: with them, the body's tiles are taken. */
#include "simd/simd_avx512.h"

#ifndef __has_feature
#define __has_feature(what) 0
#endif
#if defined(FV_ASSEMBLY) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                         \
    !__has_feature(address_sanitizer) && !__has_feature(memory_sanitizer) && !__has_feature(thread_sanitizer)
#define FV_MULTIPLY_TILES "avx512/multiply_tiles.h"
#endif
#include "body/multiply_many.h"
