/* gemm_pairs on avx512 with AVX512-BF16: the body of gemm, whose multiply-add is VDPBF16PS, twice as many products a cycle. */
#define FV_MR 6
#define FV_NR 64
#define FV_PER_WORD 2
#define FV_NAME fv_multiply_bf16x2_bf16x2_6x64_avx512
#include "simd/pairs_avx512.h"

#define FV_ACCUMULATE v_accumulate_pairs
#include "body/gemm_f32.h"
