/* multiply_pairs on neon with bfloat16: BFMLALT multiplies the odd elements of a vector of B, the first of its words,
 * BFMLALB the even ones. In assembly, since gcc 12 does not know of its own intrinsics that an element comes from the
 * lower 16 registers. */
#include "simd/simd_neon.h"

#define pairs_accumulate(instruction, acc, y, x, element)                                                              \
    __asm__(instruction " %0.4s, %1.8h, %2.h[%3]" : "+w"(acc) : "w"(y), "x"(x), "i"(element))
#define pairs_first(acc, y, x, word) pairs_accumulate("bfmlalt", acc, y, x, 2 * (word) + 1)
#define pairs_second(acc, y, x, word) pairs_accumulate("bfmlalb", acc, y, x, 2 * (word))

#define FV_MR 6
#define FV_NR 16
#define FV_PER_WORD 2
#define FV_TILE_STEPS "neon/multiply_x2.h"
#define FV_NAME fv_multiply_bf16x2_bf16x2_6x16_neon
#include "body/multiply_many.h"
