/* The FMA peak of a tier does the work that it says: its chains have gone as many rounds as were asked, and the flops
 * of a round are two for each lane of each chain. */
#include "kernels.h"
#include "peak_run.h"
#include "test.h"

#include <math.h>

/* After r rounds chain i of every lane is at 2 + (i - 2) / 2^r. peak_run() returns the sum of all, times r. */
static void test_rounds(int isa, double lanes) {
    const double flops = peak_run(isa, 1000) / 1000, chains = flops / (2 * lanes);
    test_check(chains >= 8 && chains == floor(chains), "%g flops in a round of vectors of %g lanes", flops, lanes);
    for (int r = 1; r <= 20; r++) {
        const double sum = peak_run(isa, r) / r;
        const double exact = lanes * (2 * chains + (chains * (chains - 1) / 2 - 2 * chains) * exp2(-r));
        test_check(fabs(sum - exact) <= 1e-6 * exact, "%d rounds: the sum is %.9g, not %.9g", r, sum, exact);
    }
}

int main(int argc, char **argv) {
    static const double lanes[FV_ISA_COUNT] = {
#define FV_TIER(word, number, lanes, below) [number] = lanes,
#include "tiers.inc"
#undef FV_TIER
    };
    test_begin(argc, argv, "fma_peak", NULL);
    test_rounds((int)test_isa(), lanes[test_isa()]);
    test_check(peak_run(0, 64) == 0 && peak_run(FV_ISA_COUNT, 64) == 0, "flops of what is no tier");
    return test_end();
}
