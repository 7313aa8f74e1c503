/* Blocks of 4 and 8 bits, widened to float32: a float16 scale times an integer, which is exact. */
#include "attention_part.h"

#include <string.h>

enum { BLOCK = 32, HALF = 16, SCALE_BYTES = 2 };

/* The bits of a float16, moved to those of a float32, are its number times 2^-112. */
static float float_of(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    float x;
    memcpy(&x, &magnitude, sizeof x);
    x *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits |= (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0; /* infinity and NaN, which had become large numbers */
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void widen_q8_0(const uint8_t *block, float *x) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    const float scale = float_of(half);
    const int8_t *q = (const int8_t *)block + SCALE_BYTES;
    for (int i = 0; i < BLOCK; i++)
        x[i] = scale * (float)q[i];
}

/* The low halves of bytes are the first elements. */
static void widen_q4_0(const uint8_t *block, float *x) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    const float scale = float_of(half);
    const uint8_t *q = block + SCALE_BYTES;
    for (int i = 0; i < HALF; i++) {
        x[i] = scale * (float)((q[i] & 15) - 8);
        x[i + HALF] = scale * (float)((q[i] >> 4) - 8);
    }
}

void fg_attention_widen(const fg_type *type, const void *rows, int64_t row_bytes, int64_t n, int64_t channels,
                        float *x) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *row = (const uint8_t *)rows + i * row_bytes;
        for (int64_t c = 0; c < channels; c += BLOCK, row += type->bytes, x += BLOCK) {
            if (type->dtype == FOVEA_DTYPE_Q8_0)
                widen_q8_0(row, x);
            else
                widen_q4_0(row, x);
        }
    }
}
