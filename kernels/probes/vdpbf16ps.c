/* VDPBF16PS (probes.h). */
#include "probes/probes.h"

#include <immintrin.h>

void fv_probe_vdpbf16ps(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    __m512 acc = _mm512_loadu_ps(c);
    for (int64_t t = 0; t < pairs; t++)
        acc = _mm512_dpbf16_ps(acc, (__m512bh)_mm512_set1_epi32((int)a[t]),
                               (__m512bh)_mm512_loadu_si512(b + t * FV_PROBE_OUTPUTS));
    _mm512_storeu_ps((float *)y, acc);
}
