/* Random quantized weights of every type and layout, for tests. */
#ifndef FOVEA_TESTS_QUANTIZED_LAYOUTS_H
#define FOVEA_TESTS_QUANTIZED_LAYOUTS_H

#include "attention_case.h"
#include "block_halves.h"
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* A type and how its integers lie. */
typedef struct quantized_layout {
    const char *name;
    fovea_dtype dtype;
    fovea_packing packing;
    bool in_first, zeros, act_order;
} quantized_layout;

static const quantized_layout quantized_layouts[] = {
    {"Q8_0", FOVEA_DTYPE_Q8_0, 0, 0, 0, 0},
    {"Q4_0", FOVEA_DTYPE_Q4_0, 0, 0, 0, 0},
    {"Q4_1", FOVEA_DTYPE_Q4_1, 0, 0, 0, 0},
    {"Q5_0", FOVEA_DTYPE_Q5_0, 0, 0, 0, 0},
    {"Q5_1", FOVEA_DTYPE_Q5_1, 0, 0, 0, 0},
    {"MXFP4", FOVEA_DTYPE_MXFP4, 0, 0, 0, 0},
    {"IQ4_NL", FOVEA_DTYPE_IQ4_NL, 0, 0, 0, 0},
    {"Q4_K", FOVEA_DTYPE_Q4_K, 0, 0, 0, 0},
    {"Q5_K", FOVEA_DTYPE_Q5_K, 0, 0, 0, 0},
    {"Q6_K", FOVEA_DTYPE_Q6_K, 0, 0, 0, 0},
    {"I8", FOVEA_DTYPE_I8, FOVEA_PACKING_PLAIN, 0, 0, 0},
    {"I8 in first", FOVEA_DTYPE_I8, FOVEA_PACKING_PLAIN, 1, 0, 0},
    {"F8_E4M3", FOVEA_DTYPE_F8_E4M3, FOVEA_PACKING_PLAIN, 0, 0, 0},
    {"U8", FOVEA_DTYPE_U8, FOVEA_PACKING_PLAIN, 0, 0, 0},
    {"U8 zeros", FOVEA_DTYPE_U8, FOVEA_PACKING_PLAIN, 1, 1, 0},
    {"U4", FOVEA_DTYPE_U4, FOVEA_PACKING_PLAIN, 0, 0, 0},
    {"U4 in first", FOVEA_DTYPE_U4, FOVEA_PACKING_PLAIN, 1, 0, 0},
    {"U4 zeros, order", FOVEA_DTYPE_U4, FOVEA_PACKING_PLAIN, 0, 1, 1},
    {"GPTQ 4", FOVEA_DTYPE_U4, FOVEA_PACKING_GPTQ, 0, 1, 0},
    {"GPTQ 4, order", FOVEA_DTYPE_U4, FOVEA_PACKING_GPTQ, 0, 1, 1},
    {"GPTQ 8", FOVEA_DTYPE_U8, FOVEA_PACKING_GPTQ, 0, 1, 0},
    {"AWQ", FOVEA_DTYPE_U4, FOVEA_PACKING_AWQ, 0, 1, 0},
};
enum { QUANTIZED_LAYOUTS = sizeof quantized_layouts / sizeof quantized_layouts[0] };

typedef struct quantized_case {
    fovea_matrix matrix;
    fovea_quantization quantization;
    uint8_t *data, *scales, *zeros;
    int32_t *group_of;
    int64_t bytes;
} quantized_case;

/* The struct points into itself: it is filled where it stays. With fill other than -1 all integers, and codes of
 * scales, are of that byte. */
static inline void quantized_make(quantized_case *c, const quantized_layout *l, int64_t in, int64_t out, int64_t group,
                                  fovea_dtype scale_dtype, int fill, rng *r) {
    const fv_dtype_block block = fv_dtype_block_of(l->dtype);
    const int64_t size = group ? group : in, groups = in / size, bits = fv_dtype_bits(l->dtype);
    c->bytes = block.elements > 1 ? in / block.elements * block.bytes * out : (in * out * bits + 7) / 8;
    c->data = must_alloc(c->bytes, 1);
    for (int64_t i = 0; i < c->bytes; i++)
        c->data[i] = (uint8_t)(fill < 0 ? rng_below(r, 256) : fill);
    for (int64_t b = 0; block.elements > 1 && b < c->bytes; b += block.bytes)
        for (int i = 0; block_half(l->dtype, i) >= 0; i++) {
            const uint16_t half = (uint16_t)(rng_below(r, 0x7c00) | rng_below(r, 2) << 15);
            memcpy(c->data + b + block_half(l->dtype, i), &half, sizeof half);
        }
    c->scales = must_alloc(groups * out, 4);
    for (int64_t i = 0; i < groups * out; i++) {
        const float scale = rng_normal(r) / 16 * (rng_below(r, 16) ? 1.0f : 0x1p126f);
        const uint16_t half = (uint16_t)(rng_below(r, 0x7c00) | rng_below(r, 2) << 15);
        uint32_t word;
        memcpy(&word, &scale, sizeof word);
        if (scale_dtype == FOVEA_DTYPE_F32)
            memcpy(c->scales + 4 * i, &scale, sizeof scale);
        else
            memcpy(c->scales + 2 * i, scale_dtype == FOVEA_DTYPE_F16 ? (const void *)&half : (const char *)&word + 2,
                   2);
    }
    c->zeros = must_alloc(groups * out, 1);
    for (int64_t i = 0; i < groups * out; i++)
        c->zeros[i] = (uint8_t)(l->dtype == FOVEA_DTYPE_U4 && l->packing == FOVEA_PACKING_PLAIN ? rng_below(r, 17)
                                                                                                : rng_below(r, 256));
    c->group_of = must_alloc(in, sizeof *c->group_of);
    for (int64_t i = 0; i < in; i++) {
        const int64_t j = rng_below(r, i + 1);
        c->group_of[i] = c->group_of[j];
        c->group_of[j] = (int32_t)(i / size);
    }
    fovea_quantization_init(&c->quantization);
    c->quantization.group_scales = c->scales;
    c->quantization.group_size = group;
    c->quantization.scale_dtype = scale_dtype;
    c->quantization.packing = l->packing;
    c->quantization.zeros = l->zeros ? c->zeros : NULL;
    c->quantization.zero_offset = l->zeros && l->packing == FOVEA_PACKING_GPTQ && l->dtype == FOVEA_DTYPE_U4;
    c->quantization.group_of = l->act_order ? c->group_of : NULL;
    c->matrix =
        l->in_first ? fovea_matrix_in_out(c->data, l->dtype, in, out) : fovea_matrix_out_in(c->data, l->dtype, out, in);
    c->matrix.quantization = block.elements > 1 ? NULL : &c->quantization;
    if (l->packing != FOVEA_PACKING_PLAIN) /* whose strides are ignored */
        c->matrix.in_stride = fill < 0 ? INT64_MIN : -1, c->matrix.out_stride = fill < 0 ? INT64_MAX : -1;
}

static inline void quantized_free(quantized_case *c) {
    free(c->data);
    free(c->scales);
    free(c->zeros);
    free(c->group_of);
}

#endif
