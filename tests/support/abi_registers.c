/* Callee-saved registers, noted at the very call: see abi.h.
 *
 * abi_thunk stands in for a function whose arguments it does not know, on registers and stack alike, so it may touch
 * none of them. It keeps the caller's registers and the return address in abi_slots, puts patterns into the registers,
 * calls the function with the stack as it was found, notes what the registers hold then, and returns to its caller as
 * the function would have. Values returned pass through untouched. A function that does not return (a fault, and
 * guard_try()'s jump) does no harm: the next call starts afresh.
 *
 * The assembly is that of ELF systems. */
#include "abi.h"

#include <stddef.h>

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__))

#ifdef __x86_64__
#define REGISTERS 6
static const char *const names[REGISTERS] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
#else
#define REGISTERS 19
static const char *const names[REGISTERS] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
                                             "x29", "d8",  "d9",  "d10", "d11", "d12", "d13", "d14", "d15"};
#endif

/* The assembly knows the offsets: 0, 8, 16, then 8 * REGISTERS further on each. */
struct slots {
    abi_function *target;
    void *return_address;
    uint64_t own[REGISTERS], pattern[REGISTERS], after[REGISTERS];
};

extern struct slots abi_slots __asm__("abi_slots") __attribute__((visibility("hidden")));
struct slots abi_slots;

void abi_thunk(void) __asm__("abi_thunk") __attribute__((visibility("hidden")));
void abi_break_register(int i) __asm__("abi_break_register");

#ifdef __x86_64__
#define STORE(at)                                                                                                      \
    "movq %rbx, abi_slots+" #at "(%rip)\n movq %rbp, abi_slots+8+" #at "(%rip)\n"                                      \
    "movq %r12, abi_slots+16+" #at "(%rip)\n movq %r13, abi_slots+24+" #at "(%rip)\n"                                  \
    "movq %r14, abi_slots+32+" #at "(%rip)\n movq %r15, abi_slots+40+" #at "(%rip)\n"
#define LOAD(at)                                                                                                       \
    "movq abi_slots+" #at "(%rip), %rbx\n movq abi_slots+8+" #at "(%rip), %rbp\n"                                      \
    "movq abi_slots+16+" #at "(%rip), %r12\n movq abi_slots+24+" #at "(%rip), %r13\n"                                  \
    "movq abi_slots+32+" #at "(%rip), %r14\n movq abi_slots+40+" #at "(%rip), %r15\n"
#define LOSE(i, reg) "cmpl $" #i ", %edi\n jne 1f\n notq %" reg "\n ret\n 1:\n"
/* clang-format off */
__asm__(".pushsection .text\n"
        "abi_thunk:\n"
        "popq abi_slots+8(%rip)\n"
        STORE(16) LOAD(64)
        "call *abi_slots(%rip)\n"
        STORE(112) LOAD(16)
        "pushq abi_slots+8(%rip)\n"
        "ret\n"
        ".globl abi_break_register\n"
        "abi_break_register:\n"
        LOSE(0, "rbx") LOSE(1, "rbp") LOSE(2, "r12") LOSE(3, "r13") LOSE(4, "r14") LOSE(5, "r15")
        "ret\n"
        ".popsection\n");
/* clang-format on */
#else
#define PAIRS(stp, at)                                                                                                 \
    stp " x19, x20, [x9, #" #at "]\n" stp " x21, x22, [x9, #16+" #at "]\n" stp " x23, x24, [x9, #32+" #at "]\n" stp    \
        " x25, x26, [x9, #48+" #at "]\n" stp " x27, x28, [x9, #64+" #at "]\n"
#define PAIRS_D(stp, at)                                                                                               \
    stp " d8, d9, [x9, #88+" #at "]\n" stp " d10, d11, [x9, #104+" #at "]\n" stp " d12, d13, [x9, #120+" #at "]\n" stp \
        " d14, d15, [x9, #136+" #at "]\n"
#define STORE(at) PAIRS("stp", at) "str x29, [x9, #80+" #at "]\n" PAIRS_D("stp", at)
#define LOAD(at) PAIRS("ldp", at) "ldr x29, [x9, #80+" #at "]\n" PAIRS_D("ldp", at)
#define SLOTS "adrp x9, abi_slots\n add x9, x9, :lo12:abi_slots\n"
#define LOSE(i, reg) "cmp w0, #" #i "\n b.ne 1f\n mvn " reg ", " reg "\n ret\n 1:\n"
/* clang-format off */
__asm__(".pushsection .text\n"
        ".p2align 2\n"
        "abi_thunk:\n"
        SLOTS
        "str x30, [x9, #8]\n"
        STORE(16) LOAD(168)
        "ldr x10, [x9]\n"
        "blr x10\n"
        SLOTS
        STORE(320) LOAD(16)
        "ldr x30, [x9, #8]\n"
        "ret\n"
        ".globl abi_break_register\n"
        "abi_break_register:\n"
        LOSE(0, "x19") LOSE(1, "x20") LOSE(2, "x21") LOSE(3, "x22") LOSE(4, "x23") LOSE(5, "x24") LOSE(6, "x25")
        LOSE(7, "x26") LOSE(8, "x27") LOSE(9, "x28") LOSE(10, "x29")
        LOSE(11, "v8.8b") LOSE(12, "v9.8b") LOSE(13, "v10.8b") LOSE(14, "v11.8b") LOSE(15, "v12.8b")
        LOSE(16, "v13.8b") LOSE(17, "v14.8b") LOSE(18, "v15.8b")
        "ret\n"
        ".popsection\n");
/* clang-format on */
#endif

abi_function *abi_watched(abi_function *f) {
    abi_slots.target = f;
    return abi_thunk;
}

/* Patterns that are no addresses, and that a function is unlikely to leave by chance. */
void abi_registers_enter(void) {
    for (int i = 0; i < REGISTERS; i++)
        abi_slots.after[i] = abi_slots.pattern[i] = 0xdeadbeef0badf00du ^ (uint64_t)(i + 1) << 28;
}

int abi_registers_leave(void) {
    for (int i = 0; i < REGISTERS; i++)
        if (abi_slots.after[i] != abi_slots.pattern[i])
            return i;
    return -1;
}

int abi_registers(void) { return REGISTERS; }

const char *abi_register_name(int i) { return names[i]; }

#else

abi_function *abi_watched(abi_function *f) { return f; }

void abi_registers_enter(void) {}

int abi_registers_leave(void) { return -1; }

int abi_registers(void) { return 0; }

const char *abi_register_name(int i) {
    (void)i;
    return NULL;
}

void abi_break_register(int i) { (void)i; }

#endif
