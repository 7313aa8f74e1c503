/* The harness and the ABI watch itself: what a kernel may not do besides its work, each alone in a copy of an array;
 * and each thing that abi.h watches, broken without a kernel. */
#include "mutants.h"

#include "abi.h"
#include "test.h"

#include <signal.h>

#ifndef SIGBUS /* Windows */
#define SIGBUS SIGSEGV
#endif

typedef enum breach {
    NONE,
    READS_PAST_X,
    READS_BEFORE_X,
    WRITES_PAST_Y,
    WRITES_INTO_GAP,
    WRITES_BEFORE_Y, /* not into the forbidden page: the slack must show it */
    CHANGES_X,
    NEEDS_ALIGNMENT,
    SETS_FLUSH_TO_ZERO,
    LEAVES_UPPER_DIRTY,
    LOSES_REGISTER, /* the last one, which the compiler is the least likely to use, and so to restore, itself */
    BREACHES
} breach;

static void copy(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    if (flaw == NEEDS_ALIGNMENT && (uintptr_t)x % 16 != 0)
        raise(SIGBUS); /* what a processor says */
    honest(FV_OP_copy)->run.copy_f32(rows, n, x, ldx, y, ldy);
    switch (flaw) {
    case READS_PAST_X: (void)((const volatile float *)x)[(rows - 1) * ldx + n]; break;
    case READS_BEFORE_X: (void)((const volatile float *)x)[-1]; break;
    case WRITES_PAST_Y: y[(rows - 1) * ldy + n] = 0.0f; break;
    case WRITES_INTO_GAP: y[rows > 1 && ldy > n ? n : 0] = rows > 1 && ldy > n ? 0.0f : y[0]; break;
    case WRITES_BEFORE_Y: y[(uintptr_t)y % 4096 ? -1 : 0] = (uintptr_t)y % 4096 ? 0.0f : y[0]; break;
    case CHANGES_X: ((float *)(uintptr_t)x)[0] = 0.0f; break;
    case SETS_FLUSH_TO_ZERO: abi_break(ABI_CONTROL); break;
    case LEAVES_UPPER_DIRTY: abi_break(ABI_UPPER); break;
    case LOSES_REGISTER: abi_break_register(abi_registers() - 1); break;
    default: break;
    }
}

static void check_copies(uint64_t seed) {
    const mutant m = MUTANT(DIFFERS, NONE, copy, f32, 1, 1, copy);
    for (int i = NONE; i < BREACHES; i++) {
        if ((i == SETS_FLUSH_TO_ZERO && !abi_breakable(ABI_CONTROL)) ||
            (i == LEAVES_UPPER_DIRTY && !abi_breakable(ABI_UPPER)) || (i == LOSES_REGISTER && abi_registers() == 0)) {
            test_skip("breach %d: cannot be seen on this CPU", i);
            continue;
        }
        checker c = {.kernel = &m.kernel, .reference = fv_kernel_reference(&m.kernel), .seed = seed, .quiet = true};
        flaw = i;
        check_kernel(&c);
        test_check((c.failed > 0) == (i != NONE), "breach %d: %s", i, c.failed ? c.first_failure : "not caught");
    }
}

void check_breaches(uint64_t seed) {
    static const char *const names[ABI_BREACHES] = {"floating-point control", "x87 control", "direction flag",
                                                    "upper halves"};
    abi_state before;
    for (int i = 0; i < ABI_BREACHES; i++) {
        abi_enter(&before);
        const bool broken = abi_break((abi_breach)i);
        const char *found = abi_leave(&before);
        test_check((found != NULL) == broken && broken == abi_breakable((abi_breach)i), "broken %s: %s", names[i],
                   found ? found : "not found");
    }
    for (int i = 0; i < abi_registers(); i++) {
        void (*lose)(int) = (void (*)(int))abi_watched((abi_function *)abi_break_register);
        abi_enter(&before);
        lose(i);
        const char *found = abi_leave(&before);
        test_check(found && strstr(found, abi_register_name(i)), "lost %s: %s", abi_register_name(i),
                   found ? found : "not found");
    }
    check_copies(seed);
}
