/* Words of pairs (kernels.h) multiplied by VDPBF16PS, for files compiled with AVX512-BF16. */
#ifndef FV_BF16X2_AVX512_H
#define FV_BF16X2_AVX512_H

#include "simd/simd_avx512.h"

/* acc += a b, first elements first. As for v_accumulate, the form that keeps its operands. */
static inline vf v_accumulate_pairs(vf a, vf b, vf acc) {
#ifdef __clang__
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
#else
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "vm"(b));
    return acc;
#endif
}

#endif
