/* The vocabulary of tiles as instructions, which have the numbers of tiles in them: so these are macros. */
#include "amx/tiles.h"

#include <immintrin.h>

#if defined(_WIN32) && !defined(__clang__) /* gcc 12 has strides in a long, which has 32 bits here */
#undef _tile_loadd
#undef _tile_stored
#define _tile_loadd(t, from, stride)                                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define _tile_stored(t, to, stride)                                                                                    \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
#endif

#define TILES_BEGIN() ((void)0)
#define TILES_END() ((void)0)
/* The barrier: gcc 12 is told of 8 bytes of the 64, and left out the stores to the others. */
#define tiles_load_config(config)                                                                                      \
    do {                                                                                                               \
        __asm__ volatile("" ::"r"(config) : "memory");                                                                 \
        _tile_loadconfig(config);                                                                                      \
    } while (0)
#define tile_zero(t) _tile_zero(t)
/* The barriers: gcc 12 is not told that a load reads memory. */
#define tile_load(t, from, stride)                                                                                     \
    do {                                                                                                               \
        __asm__ volatile("" ::: "memory");                                                                             \
        _tile_loadd(t, from, (stride)*4);                                                                              \
        __asm__ volatile("" ::: "memory");                                                                             \
    } while (0)
#define tile_store(t, to, stride) _tile_stored(t, to, (stride)*4)
#define tile_multiply(c, a, b) _tile_dpbf16ps(c, a, b)
#define tile_multiply_bytes(c, a, b) _tile_dpbssd(c, a, b)
