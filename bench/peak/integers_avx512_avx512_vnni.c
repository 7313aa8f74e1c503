#include <immintrin.h>

typedef __m512i integers;
enum { PRODUCTS = 64 };

static inline integers splat(int number) { return _mm512_set1_epi32(number); }
static inline integers step(integers sums, integers a, integers b) { return _mm512_dpbusd_epi32(sums, a, b); }

#define PEAK_NAME peak_integers_avx512_avx512_vnni
#include "peak_integers.h"
