/* pack of rows as bf16x2 on neon: halves of words change places. */
#include "simd/simd_neon.h"

enum { ELEMENTS = 8 };

/* Sums of squares of pairs. */
static inline vf squares_of(uint16x8_t pairs, vf squares) {
    const uint32x4_t words = vreinterpretq_u32_u16(pairs);
    const vf first = vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000))),
             second = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
    return v_fma(second, second, v_fma(first, first, squares));
}

void fv_pack_rows_bf16x2_1x8_neon(int64_t rows, int64_t n, const void *source, int64_t ldx, int exponent, float *y,
                                  int64_t ldy, fv_exponent_range *range, float *norm) {
    const uint16_t *x = source;
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    uint16x8_t least = vdupq_n_u16(0xffff), most = vdupq_n_u16(0);
    const uint16x8_t more = vdupq_n_u16((uint16_t)(exponent * 128));
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        vf squares = v_set1(0.0f);
        for (int64_t j = 0; j < n; j += ELEMENTS) {
            const int64_t left = n - j < ELEMENTS ? n - j : ELEMENTS;
            uint16_t there[ELEMENTS] = {0};
            const uint16_t *from = left < ELEMENTS ? memcpy(there, x + j, (size_t)left * sizeof *x) : x + j;
            const uint16x8_t pairs = vrev32q_u16(vld1q_u16(from)), bits = vbicq_u16(pairs, vdupq_n_u16(0x8000));
            least = vminq_u16(least, vsubq_u16(bits, vdupq_n_u16(1)));
            most = vmaxq_u16(most, bits);
            const uint16x8_t multiplied = vaddq_u16(pairs, vandq_u16(vtstq_u16(bits, bits), more));
            squares = squares_of(multiplied, squares);
            vst1q_u16(there, multiplied);
            memcpy(y + j / 2, there, (size_t)((left + 1) / 2) * sizeof *y);
        }
        const float sum = vaddvq_f32(squares);
        if (norm && sum > *norm)
            *norm = sum;
    }
    const int smallest = vminvq_u16(least), largest = vmaxvq_u16(most);
    if (smallest < 0xffff && smallest + 1 < range->least)
        range->least = smallest + 1;
    if (largest > range->most)
        range->most = largest;
}
