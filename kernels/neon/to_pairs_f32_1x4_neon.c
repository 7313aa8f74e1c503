/* to_pairs on neon: the high halves of two vectors of floats, whose pairs change places. */
#include "simd/simd_neon.h"

enum { FLOATS = 2 * FV_W };

void fv_to_pairs_f32_1x4_neon(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy,
                              fv_magnitudes *magnitudes) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    uint16x8_t least = vdupq_n_u16(0xffff), most = vdupq_n_u16(0), lost = most;
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        for (int64_t j = 0; j < n; j += FLOATS) {
            const int64_t left = n - j < FLOATS ? n - j : FLOATS;
            float there[FLOATS] = {0};
            const float *from = x + j;
            if (left < FLOATS)
                from = memcpy(there, from, (size_t)left * sizeof *x);
            const uint16x8_t a = vreinterpretq_u16_f32(v_load(from)), b = vreinterpretq_u16_f32(v_load(from + FV_W));
            const uint16x8_t pairs = vrev32q_u16(vuzp2q_u16(a, b)), bits = vbicq_u16(pairs, vdupq_n_u16(0x8000));
            lost = vorrq_u16(lost, vuzp1q_u16(a, b));
            least = vminq_u16(least, vsubq_u16(bits, vdupq_n_u16(1)));
            most = vmaxq_u16(most, bits);
            if (left == FLOATS)
                vst1q_u16((uint16_t *)(void *)(y + j / 2), pairs);
            else {
                vst1q_u16((uint16_t *)(void *)there, pairs);
                memcpy(y + j / 2, there, (size_t)((left + 1) / 2) * sizeof *y);
            }
        }
    const int smallest = vminvq_u16(least), largest = vmaxvq_u16(most);
    if (smallest < 0xffff && smallest + 1 < magnitudes->least)
        magnitudes->least = smallest + 1;
    if (largest > magnitudes->most)
        magnitudes->most = largest;
    if (vmaxvq_u16(lost) && magnitudes->most < 0x7f80)
        magnitudes->most = 0x7f80;
}
