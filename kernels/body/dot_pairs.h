/* dot by pairs (dot.h), for AVX512-BF16: VDPBF16PS multiplies two channels at once, bit for bit the chain of kernels.h where
 * fv_pairs_exact() says so of queries and keys, and the caller rounds to nearest. Both are found out on the way: where it does not hold,
 * the call is done again by floats. */
#include "simd/magnitudes_avx512.h"
#include "simd/pairs_avx512.h"

enum { QUERY_FLOATS = 2048 }; /* words of queries, at most: they are on the stack; whole vectors */

/* Of keys, the smallest magnitude less 1 of each lane, so that 0 is the largest; of scores, the largest bits: with a key that is infinite
 * or NaN, they are, too. */
typedef struct dot_seen {
    __m512i least, scores;
} dot_seen;
typedef fv_magnitudes dot_met; /* of queries */

DOT_INLINE dot_seen dot_sees_none(void) { return (dot_seen){_mm512_set1_epi16(-1), _mm512_setzero_si512()}; }

/* Words of keys as pairs, the first channel in the high half. */
DOT_INLINE vf dot_see(vf words, dot_seen *seen) {
    const __m512i halves = _mm512_castps_si512(words), twice = _mm512_add_epi16(halves, halves);
    seen->least = _mm512_min_epu16(seen->least, _mm512_sub_epi16(twice, _mm512_set1_epi16(1)));
    return _mm512_castsi512_ps(_mm512_rol_epi32(halves, 16));
}

DOT_INLINE void dot_see_scores(vf scores, dot_seen *seen) {
    const __m512i bits = _mm512_castps_si512(scores);
    seen->scores = _mm512_max_epu32(seen->scores, _mm512_add_epi32(bits, bits));
}

/* Were sums of pairs of these keys with these queries exact? */
DOT_INLINE bool dot_was_exact(const dot_seen *seen, dot_met queries) {
    const fv_magnitudes keys = {(magnitudes_smallest(seen->least) + 1) / 2, 0};
    return _mm512_reduce_max_epu32(seen->scores) < 0xff000000 && fv_pairs_exact(queries, keys);
}

/* Interleaved rows of floats become words of pairs, interleaved likewise; false if they are too many, or some are no bfloat16. */
DOT_INLINE bool dot_queries_ready(const fv_dot_args *x, float *words, dot_met *met) {
    const int64_t stride = fv_dot_stride(x->rows), count = (x->channels + 1) / 2 * stride,
                  floats = x->channels * stride;
    if (count > QUERY_FLOATS || (_mm_getcsr() & 0x6000) != 0)
        return false;
    int32_t order[FV_W];
    for (int32_t i = 0; i < FV_W; i++)
        order[i] = i / (int32_t)stride * 2 * (int32_t)stride + i % (int32_t)stride;
    const __m512i firsts = _mm512_loadu_si512(order),
                  seconds = _mm512_add_epi32(firsts, _mm512_set1_epi32((int)stride)),
                  high = _mm512_set1_epi32((int)0xffff0000);
    __m512i rest = _mm512_setzero_si512();
    magnitudes seen = magnitudes_none();
    for (int64_t i = 0; i < count; i += FV_W) {
        const int64_t left = floats - 2 * i;
        const __m512i low = _mm512_castps_si512(v_load_n(x->q + 2 * i, left < FV_W ? left : FV_W)),
                      upper =
                          left > FV_W
                              ? _mm512_castps_si512(v_load_n(x->q + 2 * i + FV_W, left < 2 * FV_W ? left - FV_W : FV_W))
                              : _mm512_setzero_si512();
        const __m512i first = _mm512_permutex2var_epi32(low, firsts, upper),
                      second = _mm512_permutex2var_epi32(low, seconds, upper);
        const __m512i pairs = _mm512_or_si512(_mm512_and_si512(first, high), _mm512_srli_epi32(second, 16));
        rest = _mm512_or_si512(rest, _mm512_andnot_si512(high, _mm512_or_si512(first, second)));
        magnitudes_add(&seen, pairs);
        _mm512_storeu_si512(words + i, pairs);
    }
    *met = fv_magnitudes_none();
    magnitudes_take(&seen, met);
    return _mm512_test_epi32_mask(rest, rest) == 0 && met->least >= 0x80 && met->most < 0x7f80;
}
