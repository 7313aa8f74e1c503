/* Compares what instructions of this CPU compute with what kernels rely on (kernels/probes). */
#ifndef FV_SELF_CHECK_H
#define FV_SELF_CHECK_H

#include "cpu/isa.h"
#include "probes/probes.h"

typedef struct fv_probe {
    const char *instruction;
    fv_isa isa;
    unsigned features;
    fv_probe_fn *run, *emulate;
} fv_probe;

extern const fv_probe fv_probes[];
extern const int fv_probe_count; /* without the last row, which is empty */

/* Operands of a probe. */
typedef struct fv_probe_case {
    int64_t pairs;
    uint32_t a[FV_PROBE_PAIRS], b[FV_PROBE_PAIRS * FV_PROBE_OUTPUTS];
    float c[FV_PROBE_OUTPUTS];
} fv_probe_case;

/* Case number 0, 1, ... of the hard ones, in which forms of the arithmetic differ: ties, halves of a last digit,
 * cancellation, the smallest normal numbers, subnormals, zeros of both signs, infinities, NaN. 0 after the last. */
int fv_probe_hard_case(int number, fv_probe_case *x);

/* Does the instruction, which the CPU has, give what its emulator does? NaN are alike. */
int fv_probe_agrees(const fv_probe *probe, const fv_probe_case *x);

/* Those that some kernel of the list needs. */
unsigned fv_needed_features(void);

/* Those of the target's features that kernels need and whose instructions disagree on a hard case. */
unsigned fv_self_check(fv_target target);

#endif
