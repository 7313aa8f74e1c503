/* Shared by peak_run.c and the files of the tiers: the sum of the accumulators after `rounds` rounds. */
#ifndef PEAK_PEAK_TIERS_H
#define PEAK_PEAK_TIERS_H

#include <stdint.h>

typedef float peak_sum(int64_t rounds);

peak_sum peak_sum_scalar;
#ifdef FV_HAVE_X86
peak_sum peak_sum_avx2, peak_sum_avx512;
#endif
#ifdef FV_HAVE_ARM64
peak_sum peak_sum_neon;
#endif

/* Runs integer products: how many operations (a product and a sum are two) a round is. */
typedef int64_t peak_integers(int64_t rounds);

#ifdef FV_HAVE_X86
peak_integers peak_integers_avx2, peak_integers_avx2_avx_vnni;
#endif
#ifdef FV_HAVE_AVX512
peak_integers peak_integers_avx512, peak_integers_avx512_avx512_vnni;
#endif
#ifdef FV_HAVE_ARM64
peak_integers peak_integers_neon, peak_integers_neon_dotprod, peak_integers_neon_i8mm;
#endif

#endif
