/* Integers in groups as floats (groups.h) on scalar: the definition. */
#include "kernels.h"

#include <assert.h>

void fv_unpack_i8g_1x1_scalar(const fv_operand *b, float *y, int64_t ldy) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales = fv_scales_row(extra, b->width);
    assert(b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width);
    for (int64_t t = 0; t < b->steps; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float *scale = b->scales + t / group * scales + b->first + j;
            const int zero = extra == FV_GROUP_zero ? (int)scale[b->width] : 0; /* w - zero is never -0 */
            float number = scale[0] * (float)(fv_group_integer(b, t, j) - zero);
            if (extra == FV_GROUP_minimum) {
                __asm__ volatile(""); /* as in body/unpack_groups.h */
                number = number + scale[b->width];
            }
            y[t * ldy + j] = number;
        }
}
