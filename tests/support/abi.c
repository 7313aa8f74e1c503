/* The ABI check: see abi.h. Registers that the callee preserves are abi_registers.c's part.
 *
 * Upper halves: XGETBV with ecx = 1 gives XINUSE, whose bits 2 and 6 tell whether any upper half of a ymm or zmm
 * register is in use (of the first 16: vzeroupper does not clean the other 16, and nothing is slowed down by them). Not
 * every processor that has it clears the bits at vzeroupper, so each is tried once; where that fails, the halves
 * themselves are read. */
#include "abi.h"

#include "fp_control.h"

#include <stddef.h>
#include <stdio.h>

/* Shared by all architectures: the sentence about a register that was lost. */
static const char *lost_register(void) {
    static char text[64];
    const int i = abi_registers_leave();
    if (i < 0)
        return NULL;
    snprintf(text, sizeof text, "loses %s, which it must preserve", abi_register_name(i));
    return text;
}

#ifdef __x86_64__
#include <cpuid.h>

enum {
    MXCSR_CONTROL = 0xffc0, /* all but the sticky exception flags */
    XINUSE_AVX = 1 << 2,
    XINUSE_ZMM = 1 << 6,
    X87_ROUND_DOWN = 0x400,
    DIRECTION_FLAG = 0x400
};
#define X86_OBSERVED "callee-saved registers, MXCSR, x87 control, direction flag"

typedef enum upper_check { UPPER_UNKNOWN, UPPER_UNSEEN, UPPER_BY_XINUSE, UPPER_BY_VALUE } upper_check;

static uint16_t read_x87_control(void) {
    uint16_t value;
    __asm__ volatile("fnstcw %0" : "=m"(value));
    return value;
}

static uint32_t read_xinuse(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low;
}

static void clean_upper(void) { __asm__ volatile("vzeroupper" : : : "memory"); }

/* Sets every bit of one register. Not declared as clobbered above its SSE half: that is the very point. */
static void dirty_upper(void) {
    if (__builtin_cpu_supports("avx512f"))
        __asm__ volatile("vpternlogd $255, %%zmm7, %%zmm7, %%zmm7" : : : "xmm7", "memory");
    else
        __asm__ volatile("vpcmpeqd %%ymm7, %%ymm7, %%ymm7" : : : "xmm7", "memory");
}

static bool upper_is_nonzero(void) {
    uint64_t half[16][2];
    uint64_t any = 0;
    __asm__ volatile("vextractf128 $1, %%ymm0, 0(%0)\n\t"
                     "vextractf128 $1, %%ymm1, 16(%0)\n\t"
                     "vextractf128 $1, %%ymm2, 32(%0)\n\t"
                     "vextractf128 $1, %%ymm3, 48(%0)\n\t"
                     "vextractf128 $1, %%ymm4, 64(%0)\n\t"
                     "vextractf128 $1, %%ymm5, 80(%0)\n\t"
                     "vextractf128 $1, %%ymm6, 96(%0)\n\t"
                     "vextractf128 $1, %%ymm7, 112(%0)\n\t"
                     "vextractf128 $1, %%ymm8, 128(%0)\n\t"
                     "vextractf128 $1, %%ymm9, 144(%0)\n\t"
                     "vextractf128 $1, %%ymm10, 160(%0)\n\t"
                     "vextractf128 $1, %%ymm11, 176(%0)\n\t"
                     "vextractf128 $1, %%ymm12, 192(%0)\n\t"
                     "vextractf128 $1, %%ymm13, 208(%0)\n\t"
                     "vextractf128 $1, %%ymm14, 224(%0)\n\t"
                     "vextractf128 $1, %%ymm15, 240(%0)"
                     :
                     : "r"(half)
                     : "memory");
    for (int i = 0; i < 16; i++)
        any |= half[i][0] | half[i][1];
    return any != 0;
}

static uint32_t xinuse_watched; /* the bits that were seen to follow what happens */

static upper_check choose_upper_check(void) {
    if (!__builtin_cpu_supports("avx2"))
        return UPPER_UNSEEN;
    uint32_t a, b, c, d;
    if (__get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 4)) {
        clean_upper();
        const uint32_t clean = read_xinuse();
        dirty_upper();
        const uint32_t dirty = read_xinuse();
        clean_upper();
        xinuse_watched = dirty & ~clean & ~read_xinuse() & (XINUSE_AVX | XINUSE_ZMM);
        if (xinuse_watched & XINUSE_AVX)
            return UPPER_BY_XINUSE;
    }
    return UPPER_BY_VALUE;
}

static upper_check how_upper(void) {
    static upper_check how;
    if (how == UPPER_UNKNOWN)
        how = choose_upper_check();
    return how;
}

void abi_enter(abi_state *before) {
    if (how_upper() != UPPER_UNSEEN)
        clean_upper();
    before->control = fp_control();
    before->x87_control = read_x87_control();
    abi_registers_enter();
}

const char *abi_leave(const abi_state *before) {
    upper_check how = how_upper();
    bool dirty = how == UPPER_BY_XINUSE ? read_xinuse() & xinuse_watched : how == UPPER_BY_VALUE && upper_is_nonzero();
    uint64_t mxcsr = fp_control();
    if (dirty)
        clean_upper();
    if ((mxcsr ^ before->control) & MXCSR_CONTROL) {
        fp_control_set(before->control);
        return "changes the control bits of MXCSR";
    }
    if (read_x87_control() != before->x87_control) {
        __asm__ volatile("fldcw %0" : : "m"(before->x87_control));
        return "changes the x87 control word";
    }
    if (__builtin_ia32_readeflags_u64() & DIRECTION_FLAG) {
        __asm__ volatile("cld");
        return "leaves the direction flag set";
    }
    return dirty ? "leaves the upper halves of vector registers in use (no vzeroupper)" : lost_register();
}

const char *abi_observed(void) {
    switch (how_upper()) {
    case UPPER_BY_XINUSE: return X86_OBSERVED ", upper vector state (XINUSE)";
    case UPPER_BY_VALUE: return X86_OBSERVED ", upper vector state (by value)";
    default: return X86_OBSERVED;
    }
}

bool abi_break(abi_breach what) {
    const uint16_t x87_control = read_x87_control() ^ X87_ROUND_DOWN;
    switch (what) {
    case ABI_CONTROL: fp_control_set(fp_control() ^ FP_FLUSH); return true;
    case ABI_X87: __asm__ volatile("fldcw %0" : : "m"(x87_control)); return true;
    case ABI_DIRECTION: __asm__ volatile("std"); return true;
    default:
        if (how_upper() != UPPER_UNSEEN)
            dirty_upper();
        return how_upper() != UPPER_UNSEEN;
    }
}

bool abi_breakable(abi_breach what) { return what != ABI_UPPER || how_upper() != UPPER_UNSEEN; }

#else

#ifdef __aarch64__
#define OBSERVED "FPCR"
#else
#define OBSERVED "nothing (known for x86-64 and aarch64)"
#endif

void abi_enter(abi_state *before) {
    before->control = fp_control();
    abi_registers_enter();
}

const char *abi_leave(const abi_state *before) {
    if (fp_control() != before->control) {
        fp_control_set(before->control);
        return "changes FPCR";
    }
    return lost_register();
}

const char *abi_observed(void) { return abi_registers() ? "callee-saved registers, " OBSERVED : OBSERVED; }

bool abi_break(abi_breach what) {
    if (what == ABI_CONTROL)
        fp_control_set(fp_control() ^ FP_FLUSH);
    return abi_breakable(what);
}

bool abi_breakable(abi_breach what) { return what == ABI_CONTROL && FP_FLUSH != 0; }

#endif
