#include <immintrin.h>

typedef __m512i integers;
enum { PRODUCTS = 32 };

static inline integers splat(int number) { return _mm512_set1_epi32(number); }
static inline integers step(integers sums, integers a, integers b) {
    return _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
}

#define PEAK_NAME peak_integers_avx512
#include "peak_integers.h"
