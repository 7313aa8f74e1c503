/* Random quantized weights (quantized_case.h). */
#include "quantized_case.h"

#include "attention_case.h"
#include "block_halves.h"
#include "core/core.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define F16 FOVEA_DTYPE_F16
#define BF16 FOVEA_DTYPE_BF16
#define F32 FOVEA_DTYPE_F32
const quantized_kind quantized_kinds[] = {
    {"int8", FOVEA_DTYPE_I8, 0, F32, FOVEA_PACKING_PLAIN, false, false, 1},
    {"int8 in groups", FOVEA_DTYPE_I8, 32, F32, FOVEA_PACKING_PLAIN, false, false, 32},
    {"uint8", FOVEA_DTYPE_U8, 64, BF16, FOVEA_PACKING_PLAIN, false, false, 64},
    {"uint8 with zeros", FOVEA_DTYPE_U8, 128, F16, FOVEA_PACKING_PLAIN, true, false, 128},
    {"gptq of 8 bits", FOVEA_DTYPE_U8, 64, F16, FOVEA_PACKING_GPTQ, true, false, 64},
    {"4 bits", FOVEA_DTYPE_U4, 32, F16, FOVEA_PACKING_PLAIN, false, false, 32},
    {"4 bits, one scale", FOVEA_DTYPE_U4, 0, F32, FOVEA_PACKING_PLAIN, false, false, 2},
    {"4 bits in groups of 16", FOVEA_DTYPE_U4, 16, BF16, FOVEA_PACKING_PLAIN, false, false, 16},
    {"4 bits with zeros", FOVEA_DTYPE_U4, 64, F32, FOVEA_PACKING_PLAIN, true, false, 64},
    {"gptq", FOVEA_DTYPE_U4, 128, F16, FOVEA_PACKING_GPTQ, true, false, 128},
    {"gptq, act-order", FOVEA_DTYPE_U4, 32, F16, FOVEA_PACKING_GPTQ, true, true, 32},
    {"awq", FOVEA_DTYPE_U4, 64, F16, FOVEA_PACKING_AWQ, true, false, 64},
    {"q8_0", FOVEA_DTYPE_Q8_0, 0, 0, 0, false, false, 32},
    {"q4_0", FOVEA_DTYPE_Q4_0, 0, 0, 0, false, false, 32},
    {"q4_1", FOVEA_DTYPE_Q4_1, 0, 0, 0, false, false, 32},
    {"q5_0", FOVEA_DTYPE_Q5_0, 0, 0, 0, false, false, 32},
    {"q5_1", FOVEA_DTYPE_Q5_1, 0, 0, 0, false, false, 32},
    {"mxfp4", FOVEA_DTYPE_MXFP4, 0, 0, 0, false, false, 32},
    {"iq4_nl", FOVEA_DTYPE_IQ4_NL, 0, 0, 0, false, false, 32},
    {"q4_k", FOVEA_DTYPE_Q4_K, 0, 0, 0, false, false, 256},
    {"q5_k", FOVEA_DTYPE_Q5_K, 0, 0, 0, false, false, 256},
    {"q6_k", FOVEA_DTYPE_Q6_K, 0, 0, 0, false, false, 256},
};
const int quantized_kind_count = sizeof quantized_kinds / sizeof quantized_kinds[0];

/* A float16 of about 2^-10, of either sign where that is said. */
static uint16_t some_half(rng *r, bool positive) {
    return (uint16_t)(rng_between(r, 0x0c00, 0x1800) | (positive || rng_below(r, 2) ? 0 : 0x8000));
}

static void some_scales(quantized_weight *w, const quantized_kind *kind, int64_t count, rng *r) {
    w->scales = must_alloc(count, sizeof(float));
    for (int64_t i = 0; i < count; i++)
        if (kind->scale_dtype == F32)
            ((float *)w->scales)[i] = rng_normal(r) * 0x1p-9f;
        else
            ((uint16_t *)w->scales)[i] =
                kind->scale_dtype == F16 ? some_half(r, true) : (uint16_t)(some_half(r, true) + 0x3000);
}

/* Floats inside of blocks, which any bytes are not. */
static void mend_blocks(quantized_weight *w, fovea_dtype dtype, int64_t blocks, rng *r) {
    const fv_dtype_block block = fv_dtype_block_of(dtype);
    for (int64_t i = 0; i < blocks && dtype == FOVEA_DTYPE_MXFP4; i++)
        ((uint8_t *)w->data)[i * block.bytes] = (uint8_t)rng_between(r, 110, 122);
    for (int64_t i = 0; i < blocks; i++)
        for (int h = 0; block_half(dtype, h) >= 0; h++) {
            const uint16_t half = some_half(r, false);
            memcpy((char *)w->data + i * block.bytes + block_half(dtype, h), &half, sizeof half);
        }
}

void quantized_make(quantized_weight *w, const quantized_kind *kind, int64_t in, int64_t out, rng *r) {
    const int64_t bytes = fv_dtype_bytes(kind->dtype, in * out), groups = kind->group ? in / kind->group : 1;
    memset(w, 0, sizeof *w);
    w->data = must_alloc(bytes + 1, 1);
    for (int64_t i = 0; i < bytes; i++)
        ((uint8_t *)w->data)[i] = (uint8_t)rng_below(r, 256);
    w->matrix = fovea_matrix_out_in(w->data, kind->dtype, out, in);
    if (!fv_dtype_scaled(kind->dtype)) {
        mend_blocks(w, kind->dtype, in * out / fv_dtype_block_of(kind->dtype).elements, r);
        return;
    }
    fovea_quantization *q = &w->quantization;
    fovea_quantization_init(q);
    some_scales(w, kind, out * groups, r);
    q->scales = kind->group ? NULL : w->scales;
    q->group_scales = kind->group ? w->scales : NULL;
    q->group_size = kind->group;
    q->scale_dtype = kind->group ? kind->scale_dtype : BF16; /* of scales it says nothing: they are floats */
    q->packing = kind->packing;
    if (kind->zeros) {
        w->zeros = must_alloc(groups * out, 1);
        for (int64_t i = 0; i < groups * out; i++)
            ((uint8_t *)w->zeros)[i] =
                (uint8_t)rng_below(r, kind->dtype == FOVEA_DTYPE_U4 && kind->packing == FOVEA_PACKING_PLAIN ? 16 : 256);
        q->zeros = w->zeros;
        q->zero_offset = kind->dtype == FOVEA_DTYPE_U4 && kind->packing == FOVEA_PACKING_GPTQ;
    }
    if (kind->ordered) {
        w->group_of = must_alloc(in, sizeof *w->group_of);
        for (int64_t t = 0; t < in; t++)
            w->group_of[t] = (int32_t)(t / kind->group);
        for (int64_t t = in - 1; t > 0; t--) {
            const int64_t other = rng_between(r, 0, t);
            const int32_t group = w->group_of[t];
            w->group_of[t] = w->group_of[other];
            w->group_of[other] = group;
        }
        q->group_of = w->group_of;
    }
    w->matrix.quantization = q;
    if (kind->packing != FOVEA_PACKING_PLAIN) /* whose strides are ignored */
        w->matrix.in_stride = rng_below(r, 2) ? INT64_MIN : -1, w->matrix.out_stride = rng_below(r, 2) ? INT64_MAX : -1;
}

void quantized_free(quantized_weight *w) {
    free(w->data);
    free(w->scales);
    free(w->zeros);
    free(w->group_of);
}
