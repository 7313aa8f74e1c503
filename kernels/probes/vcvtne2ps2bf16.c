/* VCVTNE2PS2BF16 (probes.h): its second operand becomes the lower half of the vector. */
#include "probes/probes.h"

#include <immintrin.h>

void fv_probe_vcvtne2ps2bf16(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    (void)pairs, (void)a;
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_castsi512_ps(_mm512_loadu_si512(b)), _mm512_loadu_ps(c));
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(both)),
                  high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1));
    _mm512_storeu_si512(y, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}
