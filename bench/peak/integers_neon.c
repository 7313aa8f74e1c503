#include <arm_neon.h>

typedef int32x4_t integers;
enum { PRODUCTS = 4 };

static inline integers splat(int number) { return vdupq_n_s32(number); }
static inline integers step(integers sums, integers a, integers b) {
    return vmlal_s16(sums, vget_low_s16(vreinterpretq_s16_s32(a)), vget_low_s16(vreinterpretq_s16_s32(b)));
}

#define PEAK_NAME peak_integers_neon
#include "peak_integers.h"
