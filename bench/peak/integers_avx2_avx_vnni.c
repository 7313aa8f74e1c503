#include <immintrin.h>

typedef __m256i integers;
enum { PRODUCTS = 32 };

static inline integers splat(int number) { return _mm256_set1_epi32(number); }
static inline integers step(integers sums, integers a, integers b) { return _mm256_dpbusd_avx_epi32(sums, a, b); }

#define PEAK_NAME peak_integers_avx2_avx_vnni
#include "peak_integers.h"
