/* The ABI watch itself: each thing that abi.h watches, broken alone, without a kernel. */
#include "check.h"

#include "abi.h"
#include "test.h"

void check_breaches(void) {
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
}
