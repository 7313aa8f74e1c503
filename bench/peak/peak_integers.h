/* The integer peak of an instruction set. A file defines PEAK_NAME, the type `integers` of a vector of sums, `splat` and
 * `step`, and PRODUCTS, the products of a step; then it includes this. So many sums side by side cover the latency of the
 * units. */
#include "peak_tiers.h"

#include <string.h>

int64_t PEAK_NAME(int64_t rounds) {
    enum { COUNT = 12 };
    const integers ones = splat(0x01010101);
    integers acc[COUNT];
    for (int i = 0; i < COUNT; i++)
        acc[i] = splat(0);
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < COUNT; i++) {
            acc[i] = step(acc[i], ones, ones);
            /* For the compiler each sum is needed, and may be any. */
#ifdef __aarch64__
            __asm__ volatile("" : "+w"(acc[i]));
#else
            __asm__ volatile("" : "+x"(acc[i]));
#endif
        }
    return (int64_t)2 * PRODUCTS * COUNT;
}
