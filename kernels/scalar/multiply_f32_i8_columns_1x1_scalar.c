/* multiply of floats and i8_columns on scalar: the definition. */
#include "simd/simd_scalar.h"

#include "simd/int8_scalar.h"

#include "body/format/i8_columns.h"

void fv_multiply_f32_i8_columns_1x1_scalar(const fv_rows *rows, const fv_operand *b, float *c, int64_t ldc,
                                           const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const float *a = rows->data, *start = epilogue ? epilogue->start : NULL;
    const int8_t *words = b->data;
    (void)prefetch;
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = start ? start[i * epilogue->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = fmaf(a[i * rows->stride + t], format_load(words + t * b->row + j, b->scales + j, 0), acc);
            c[i * ldc + j] = acc;
        }
}
