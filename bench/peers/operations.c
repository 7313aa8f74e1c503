/* Measured by bench/peers besides the public functions, each by tier: SLEEF's exp, the FMA peak, reading of memory.
 * Loaded by peers/api.py; the functions are called from Python, hence no header. */
#include <sleef.h>

#include "dispatch/dispatch.h"
#include "peak_run.h"
#include "read_speed.h"
#include "sleef_exp.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void peers_sleef(int isa, int64_t n, const float *x, float *y);
EXPORT double peers_peak(int isa, int64_t rounds);
EXPORT uint64_t peers_read(const void *memory, int64_t bytes);
EXPORT int peers_sleef_version(void);

EXPORT void peers_sleef(int isa, int64_t n, const float *x, float *y) {
    switch ((fv_isa)isa) {
#ifdef FV_HAVE_AVX512
    case FV_ISA_avx512: bench_sleef_exp_avx512(n, x, y); break;
#endif
#ifdef FV_HAVE_X86
    case FV_ISA_avx2: bench_sleef_exp_avx2(n, x, y); break;
#endif
    default: bench_sleef_exp_scalar(n, x, y); break;
    }
}

EXPORT double peers_peak(int isa, int64_t rounds) { return peak_run(isa, rounds); }

EXPORT uint64_t peers_read(const void *memory, int64_t bytes) { return peak_read(memory, bytes); }

EXPORT int peers_sleef_version(void) {
    return SLEEF_VERSION_MAJOR * 10000 + SLEEF_VERSION_MINOR * 100 + SLEEF_VERSION_PATCHLEVEL;
}
