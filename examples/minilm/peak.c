/* A tier's FMA peak, by the loop that benchmarks take it by, too. */
#include "peak.h"

#include "peak_run.h"
#include "stopwatch.h"

double peak_gflops(fovea_isa isa, double seconds) {
    enum { ROUNDS = 20000 };
    double start = stopwatch(CLOCK_MONOTONIC), best = 0.0, end;
    do {
        double begin = stopwatch(CLOCK_MONOTONIC), flops = peak_run((int)isa, ROUNDS);
        end = stopwatch(CLOCK_MONOTONIC);
        double gflops = 1e-9 * flops / (end - begin);
        best = gflops > best ? gflops : best;
    } while (end - start < seconds);
    return best;
}
