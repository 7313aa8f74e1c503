/* VCVTNEPS2BF16 (probes.h). */
#include "probes/probes.h"

#include <immintrin.h>

void fv_probe_vcvtneps2bf16(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    (void)pairs, (void)a, (void)b;
    _mm512_storeu_si512(y, _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(c))));
}
