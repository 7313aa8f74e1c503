/* gemm_pairs on avx512 with AVX512-BF16: the body of gemm, whose multiply-add is VDPBF16PS, twice as many products a cycle. */
#define FV_MR 6
#define FV_NR 64
#define FV_NAME fv_gemm_pairs_bf16_6x64_avx512
#include "simd/simd_avx512.h"

/* acc += a b, first elements first. As for v_accumulate, the form that keeps its operands. */
static inline vf pairs_accumulate(vf a, vf b, vf acc) {
#ifdef __clang__
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
#else
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "vm"(b));
    return acc;
#endif
}

#define FV_ACCUMULATE pairs_accumulate
#include "body/gemm_f32.h"
