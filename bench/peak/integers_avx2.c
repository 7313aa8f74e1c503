#include <immintrin.h>

typedef __m256i integers;
enum { PRODUCTS = 16 };

static inline integers splat(int number) { return _mm256_set1_epi32(number); }
static inline integers step(integers sums, integers a, integers b) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}

#define PEAK_NAME peak_integers_avx2
#include "peak_integers.h"
