/* gemm_pairs on scalar: the body of gemm, with two multiply-adds a word. */
#define FV_MR 4
#define FV_NR 4
#define FV_NAME fv_gemm_pairs_bf16_4x4_scalar
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

static inline float pairs_first(float word) { return half_float(half_bits(word) & 0xffff0000u); }
static inline float pairs_second(float word) { return half_float(half_bits(word) << 16); }

static inline vf pairs_accumulate(vf a, vf b, vf acc) {
    return fmaf(pairs_second(a), pairs_second(b), fmaf(pairs_first(a), pairs_first(b), acc));
}

#define FV_ACCUMULATE pairs_accumulate
#include "body/gemm_f32.h"
