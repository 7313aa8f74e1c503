/* The integer peak of an instruction set. A file defines PEAK_NAME, the type `integers` of a vector of sums, `splat`
 * and `step`, and PRODUCTS, the products of a step; then it includes this. The sums side by side cover the latency
 * of the units; the compiler cannot know that each step multiplies the same. */
#include "peak_tiers.h"

#include <string.h>

int64_t PEAK_NAME(int64_t rounds) {
    enum { COUNT = 12 };
    integers ones = splat(0x01010101), acc[COUNT];
    for (int i = 0; i < COUNT; i++)
        acc[i] = splat(0);
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < COUNT; i++) {
#ifdef __aarch64__
            __asm__ volatile("" : "+w"(ones));
#else
            __asm__ volatile("" : "+x"(ones));
#endif
            acc[i] = step(acc[i], ones, ones);
        }
    int32_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        int32_t one;
        memcpy(&one, &acc[i], sizeof one);
        sum |= one;
    }
    return sum ? (int64_t)2 * PRODUCTS * COUNT : 0;
}
