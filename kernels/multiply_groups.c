/* Products of integers in groups (groups.h) on scalar: the definition, of every format and kind. */
#include "simd/simd_scalar.h"

#include "kernels.h"

#include <assert.h>

void fv_multiply_groups_scalar(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, fv_kind kind) {
    const fv_epilogue *e = epilogue;
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales = fv_scales_row(extra, b->width);
    assert(a->count >= 1 && b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width);
    assert(!e || (!e->a && !e->b && !e->row_max));
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            const uint32_t *row = (const uint32_t *)a->data + i * a->stride;
            const float *scale = b->scales + b->first + j;
            float acc = e && e->start ? e->start[i * e->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < b->steps; t += group, scale += scales) {
                const int64_t count = b->steps - t < group ? b->steps - t : group;
                const fv_group_row *x = (const fv_group_row *)(const void *)row;
                const int zero = extra == FV_GROUP_zero ? (int)scale[b->width] : fv_group_zero(b->format, extra);
                int32_t sum = 0;
                for (int64_t s = 0; s < count; s++)
                    sum += fv_group_x(kind, x, s) * (fv_group_integer(b, t + s, j) - zero);
                acc = v_fma((float)sum, scale[0] * x->scale, acc);
                if (extra == FV_GROUP_minimum)
                    acc = v_fma((float)x->sum, scale[b->width] * x->scale, acc);
                row += fv_group_row_words(kind, count);
            }
            c[i * ldc + j] = acc;
        }
}
