/* peak_run (peak_run.h). Every chain ends at exactly 2, its fixed point: so the sum of all is the flops of a round, and
 * a number that takes all the work to find. */
#include "peak_run.h"

#include "kernels.h"
#include "peak_tiers.h"

double peak_run(int isa, int64_t rounds) {
    static peak_sum *const sums[FV_ISA_COUNT] = {
        [FV_ISA_scalar] = peak_sum_scalar,
#ifdef FV_HAVE_X86
        [FV_ISA_avx2] = peak_sum_avx2,
#endif
#ifdef FV_HAVE_AVX512
        [FV_ISA_avx512] = peak_sum_avx512,
#endif
#ifdef FV_HAVE_ARM64
        [FV_ISA_neon] = peak_sum_neon,
#endif
    };
    const int known = isa > 0 && isa < FV_ISA_COUNT && sums[isa];
    return known ? (double)sums[isa](rounds) * (double)rounds : 0.0;
}
