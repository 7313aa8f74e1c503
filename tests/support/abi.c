/* The ABI check: see abi.h.
 *
 * Upper halves: XGETBV with ecx = 1 gives XINUSE, whose bit 2 tells whether any of them is in use. Not every processor
 * that has it clears the bit at vzeroupper, so it is tried once; where it does not, the halves themselves are read.
 */
#include "abi.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __x86_64__
#include <cpuid.h>

enum {
    MXCSR_CONTROL = 0xffc0, /* all but the sticky exception flags */
    MXCSR_FLUSH_TO_ZERO = 0x8000,
    XINUSE_AVX = 4,
    DIRECTION_FLAG = 0x400
};

typedef enum upper_check { UPPER_UNKNOWN, UPPER_UNSEEN, UPPER_BY_XINUSE, UPPER_BY_VALUE } upper_check;

static uint32_t read_mxcsr(void) {
    uint32_t value;
    __asm__ volatile("stmxcsr %0" : "=m"(value));
    return value;
}

static void write_mxcsr(uint32_t value) { __asm__ volatile("ldmxcsr %0" : : "m"(value)); }

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
static void dirty_upper(void) { __asm__ volatile("vpcmpeqd %%ymm7, %%ymm7, %%ymm7" : : : "xmm7", "memory"); }

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

static upper_check choose_upper_check(void) {
    if (!__builtin_cpu_supports("avx2"))
        return UPPER_UNSEEN;
    uint32_t a, b, c, d;
    if (__get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 4)) {
        clean_upper();
        bool clean = !(read_xinuse() & XINUSE_AVX);
        dirty_upper();
        bool dirty = read_xinuse() & XINUSE_AVX;
        clean_upper();
        if (clean && dirty && !(read_xinuse() & XINUSE_AVX))
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
    before->mxcsr = read_mxcsr();
    before->x87_control = read_x87_control();
}

const char *abi_leave(const abi_state *before) {
    upper_check how = how_upper();
    bool dirty = how == UPPER_BY_XINUSE ? read_xinuse() & XINUSE_AVX : how == UPPER_BY_VALUE && upper_is_nonzero();
    uint32_t mxcsr = read_mxcsr();
    if (dirty)
        clean_upper();
    if ((mxcsr ^ before->mxcsr) & MXCSR_CONTROL) {
        write_mxcsr(before->mxcsr);
        return "changes the control bits of MXCSR";
    }
    if (read_x87_control() != before->x87_control)
        return "changes the x87 control word";
    if (__builtin_ia32_readeflags_u64() & DIRECTION_FLAG) {
        __asm__ volatile("cld");
        return "leaves the direction flag set";
    }
    return dirty ? "leaves the upper halves of vector registers in use (no vzeroupper)" : NULL;
}

const char *abi_observed(void) {
    switch (how_upper()) {
    case UPPER_BY_XINUSE: return "MXCSR, x87 control, direction flag, upper vector state (XINUSE)";
    case UPPER_BY_VALUE: return "MXCSR, x87 control, direction flag, upper vector state (by value)";
    default: return "MXCSR, x87 control, direction flag";
    }
}

int abi_break_control(void) {
    write_mxcsr(read_mxcsr() ^ MXCSR_FLUSH_TO_ZERO);
    return 1;
}

int abi_break_upper(void) {
    if (how_upper() == UPPER_UNSEEN)
        return 0;
    dirty_upper();
    return 1;
}

#else

void abi_enter(abi_state *before) { (void)before; }

const char *abi_leave(const abi_state *before) {
    (void)before;
    return NULL;
}

const char *abi_observed(void) { return "nothing (known for x86-64 only)"; }

int abi_break_control(void) { return 0; }

int abi_break_upper(void) { return 0; }

#endif
