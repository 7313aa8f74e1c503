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

double peak_run_integers(int isa, unsigned features, int64_t rounds) {
    /* Best first. */
    static const struct {
        int isa;
        unsigned features;
        peak_integers *run;
    } all[] = {
#ifdef FV_HAVE_AVX512
        {FV_ISA_avx512, FV_HAS_avx512_vnni, peak_integers_avx512_avx512_vnni},
        {FV_ISA_avx512, 0, peak_integers_avx512},
#endif
#ifdef FV_HAVE_X86
        {FV_ISA_avx2, FV_HAS_avx_vnni, peak_integers_avx2_avx_vnni},
        {FV_ISA_avx2, 0, peak_integers_avx2},
#endif
#ifdef FV_HAVE_ARM64
        {FV_ISA_neon, FV_HAS_i8mm, peak_integers_neon_i8mm},
        {FV_ISA_neon, FV_HAS_dotprod, peak_integers_neon_dotprod},
        {FV_ISA_neon, 0, peak_integers_neon},
#endif
        {0, 0, NULL}};
    for (int i = 0; all[i].run; i++)
        if (all[i].isa == isa && (all[i].features & ~features) == 0)
            return (double)all[i].run(rounds) * (double)rounds;
    return 0.0;
}
