#include <arm_neon.h>

typedef int32x4_t integers;
enum { PRODUCTS = 16 };

static inline integers splat(int number) { return vdupq_n_s32(number); }
static inline integers step(integers sums, integers a, integers b) {
    return vdotq_s32(sums, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}

#define PEAK_NAME peak_integers_neon_dotprod
#include "peak_integers.h"
