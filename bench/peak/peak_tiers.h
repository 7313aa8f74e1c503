/* What peak_run.c and the files of the tiers share: the sum of the accumulators after so many rounds. */
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

#endif
