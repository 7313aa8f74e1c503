/* What a function may not leave changed, beyond what C sees: floating-point control, direction flag, vector state.
 *
 * Use: abi_state before; abi_enter(&before); kernel(...); const char *wrong = abi_leave(&before);
 *
 * Checked on x86-64: the control bits of MXCSR (rounding, flush-to-zero, exception masks), the x87 control word, the
 * direction flag, and that the upper halves of the vector registers are clean, since what is left there slows down every
 * SSE instruction that follows (a missing vzeroupper). Elsewhere: nothing, and abi_observed() says so.
 */
#ifndef FOVEA_TESTS_ABI_H
#define FOVEA_TESTS_ABI_H

#include <stdint.h>

typedef struct abi_state {
    uint32_t mxcsr;
    uint16_t x87_control;
} abi_state;

void abi_enter(abi_state *before);

/* NULL if all is as it was, else a sentence; puts things right again. Call it straight after the function under test. */
const char *abi_leave(const abi_state *before);

/* What can be observed on this machine, for the report. */
const char *abi_observed(void);

/* Do what abi_leave() is to find, for testing the test. False: cannot be done or seen here. */
int abi_break_control(void);
int abi_break_upper(void);

#endif
