/* State that a function may not leave changed, unseen by C: callee-saved registers, floating-point control,
 * direction flag, vector state.
 *
 * Use:   abi_state before;
 *        abi_function *watched = abi_watched(function);
 *        abi_enter(&before);
 *        ... call watched, through a pointer of function's type ...
 *        const char *wrong = abi_leave(&before);
 *
 * Checked around the call: the control bits of MXCSR (rounding, flush-to-zero, exception masks), the x87 control word,
 * the direction flag, and that the upper halves of the vector registers are clean, since what is left there slows down
 * every SSE instruction that follows (a missing vzeroupper), on x86-64; FPCR on aarch64. Checked at the call, since a C
 * function in between would restore what it was given: the registers that the callee must preserve, rbx, rbp and
 * r12-r15, or x19-x29 and the low halves of v8-v15 (abi_registers.c). Elsewhere: nothing, and abi_observed() says so.
 * For one thread at a time. */
#ifndef FOVEA_TESTS_ABI_H
#define FOVEA_TESTS_ABI_H

#include <stdbool.h>
#include <stdint.h>

typedef struct abi_state {
    uint64_t control; /* MXCSR, FPCR */
    uint16_t x87_control;
} abi_state;

typedef void abi_function(void); /* any function, to be called by its own type */

/* A function that calls f with whatever arguments it is given, returns what f returns, and notes which registers f
 * loses; f itself where that is not known. Only the last one made is good. */
abi_function *abi_watched(abi_function *f);

void abi_enter(abi_state *before);

/* NULL if all is as it was, else a sentence; puts things right again. Call it straight after the function under
 * test. */
const char *abi_leave(const abi_state *before);

/* The state that can be observed on this machine, for the report. */
const char *abi_observed(void);

/* Does what abi_leave() is to find, for testing the test. False: cannot be done or seen here. */
typedef enum abi_breach { ABI_CONTROL, ABI_X87, ABI_DIRECTION, ABI_UPPER, ABI_BREACHES } abi_breach;
bool abi_break(abi_breach what);

/* The sentence of abi_break(), with nothing broken. */
bool abi_breakable(abi_breach what);

/* The registers that are noted: how many, and their names. abi_break_register(i) loses number i, to be called as a
 * watched function or by one. */
int abi_registers(void);
const char *abi_register_name(int i);
void abi_break_register(int i);

/* For abi.c: begins a watch, and ends it with the number of the first register that was lost, or -1. */
void abi_registers_enter(void);
int abi_registers_leave(void);

#endif
