/* Weights of linear maps that are timed (linear_weights.h). */
#include "linear_weights.h"

#include <stdlib.h>
#include <string.h>

/* From 2^-8 to 2^-7. */
static uint16_t any_scale(uint64_t *state) { return (uint16_t)(0x1c00 + (bench_random(state) >> 54)); }

int64_t linear_weights_group(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_U4 || dtype == FOVEA_DTYPE_U8 ? 32 : 0; }

/* Scales of whole columns are float32, those of groups float16. */
static bool make_scales(linear_weights *w, int64_t in, int64_t out, int64_t group, uint64_t *state) {
    fovea_quantization_init(&w->quantization);
    w->matrix.quantization = &w->quantization;
    if (group == 0) {
        w->scales = bench_numbers(out, FOVEA_DTYPE_F32, 0, 1.0f / 127, 4);
        w->quantization.scales = w->scales;
        return w->scales != NULL;
    }
    uint16_t *scales = w->scales = bench_alloc(out * (in / group) * (int64_t)sizeof *scales);
    for (int64_t i = 0; scales && i < out * (in / group); i++)
        scales[i] = any_scale(state);
    w->quantization.group_size = group;
    w->quantization.group_scales = scales;
    w->quantization.scale_dtype = FOVEA_DTYPE_F16;
    return scales != NULL;
}

bool linear_weights_make(linear_weights *w, fovea_dtype dtype, int64_t in, int64_t out, int64_t group) {
    const int64_t count = in * out, bytes = fv_dtype_bytes(dtype, count);
    uint64_t state = 2;
    const bool floats = !fv_dtype_quantized(dtype);
    w->data = floats ? bench_numbers(count, dtype, -1, 1, 2) : bench_alloc(bytes);
    w->matrix = fovea_matrix_out_in(w->data, dtype, out, in);
    if (!w->data || floats)
        return w->data != NULL;
    uint8_t *integers = w->data;
    for (int64_t i = 0; i < bytes; i++)
        integers[i] = (uint8_t)(bench_random(&state) >> 56);
    if (fv_dtype_scaled(dtype))
        return make_scales(w, in, out, group, &state);
    for (int64_t i = 1; i < bytes; i += 2) /* a float16 of a block is less than 2^-7, wherever it is */
        integers[i] &= 0x9f;
    return true;
}

void linear_weights_free(linear_weights *w) {
    free(w->data);
    free(w->scales);
    *w = (linear_weights){0};
}
