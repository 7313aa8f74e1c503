/* Measures a tier's FMA peak with the library's own 'peak' kernel, which keeps enough independent multiply-adds in
 * flight to fill every unit. The kernels are no part of the public API: this file is why fovea-minilm links
 * fovea_internal. */
#include "peak.h"

#include "dispatch/dispatch.h"
#include "stopwatch.h"

_Static_assert((int)FOVEA_ISA_SCALAR == FV_ISA_scalar && (int)FOVEA_ISA_AVX2 == FV_ISA_avx2 &&
                   (int)FOVEA_ISA_AVX512 == FV_ISA_avx512,
               "public and internal tiers have the same numbers");

/* Takes the kernel's result, so that no compiler can leave the work out. */
static volatile float sink;

double peak_gflops(fovea_isa isa, double seconds) {
    enum { PROBE_ROUNDS = 1000, PROBES = 20 };
    const fv_kernel *kernel = fv_kernel_best(FV_OP_peak, FV_TYPE_f32, (fv_target){(fv_isa)isa, FV_HAS_nothing});
    if (kernel->isa != (fv_isa)isa)
        return 0.0;

    double flops = 2.0 * kernel->mr * kernel->nr * PROBE_ROUNDS;
    double start = stopwatch(CLOCK_MONOTONIC), best = 0.0, end;
    do {
        double begin = stopwatch(CLOCK_MONOTONIC);
        for (int i = 0; i < PROBES; i++)
            sink = kernel->run.peak_f32(PROBE_ROUNDS);
        end = stopwatch(CLOCK_MONOTONIC);
        double gflops = 1e-9 * PROBES * flops / (end - begin);
        best = gflops > best ? gflops : best;
    } while (end - start < seconds);
    return best;
}
