/* multiply_pairs on neon with float16: FMLAL multiplies the lower four elements of a vector of B, the first of its four
 * words, FMLAL2 the upper ones. In assembly, as for bfloat16. */
#include "simd/simd_neon.h"

#define pairs_accumulate(instruction, acc, y, x, element)                                                              \
    __asm__(instruction " %0.4s, %1.4h, %2.h[%3]" : "+w"(acc) : "w"(y), "x"(x), "i"(element))
#define pairs_first(acc, y, x, word) pairs_accumulate("fmlal", acc, y, x, 2 * (word))
#define pairs_second(acc, y, x, word) pairs_accumulate("fmlal2", acc, y, x, 2 * (word) + 1)

#define FV_MR 6
#define FV_NR 16
#define FV_PER_WORD 2
#define FV_FACTOR_MAX
#define FV_TILE_STEPS "neon/multiply_x2.h"
#define FV_NAME fv_multiply_f16x2_f16x2x4_6x16_neon
#include "body/multiply_many.h"
