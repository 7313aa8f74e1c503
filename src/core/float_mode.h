/* The calling thread's floating-point mode: rounding, flush-to-zero, exceptions that trap, flags of those that
 * occurred.
 *
 * On x86-64 that is MXCSR: nothing here computes with the x87 unit, whose part of <fenv.h> takes ten times as long. */
#ifndef FV_FLOAT_MODE_H
#define FV_FLOAT_MODE_H

#if defined(__x86_64__)

typedef unsigned fv_float_mode;

static inline fv_float_mode fv_float_mode_now(void) { return __builtin_ia32_stmxcsr(); }

static inline void fv_float_mode_set(const fv_float_mode *mode) { __builtin_ia32_ldmxcsr(*mode); }

/* No exception traps, no flag is set; returns the mode as it was. */
static inline fv_float_mode fv_float_hold(void) {
    const unsigned flags = 0x3f, masks = 0x1f80, before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((before & ~flags) | masks);
    return before;
}

/* Round to nearest, nothing flushed, nothing traps; returns the mode as it was. */
static inline fv_float_mode fv_float_plain(void) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x1f80);
    return before;
}

static inline int fv_float_nearest(void) { return (__builtin_ia32_stmxcsr() & 0x6000) == 0; }

#else
#include <fenv.h>
#include <stdint.h>

typedef fenv_t fv_float_mode;

static inline fv_float_mode fv_float_mode_now(void) {
    fv_float_mode mode;
    fegetenv(&mode);
    return mode;
}

static inline void fv_float_mode_set(const fv_float_mode *mode) { fesetenv(mode); }

static inline fv_float_mode fv_float_hold(void) {
    fv_float_mode before;
    feholdexcept(&before);
    return before;
}

static inline fv_float_mode fv_float_plain(void) {
    const fv_float_mode before = fv_float_hold();
    fesetenv(FE_DFL_ENV);
    return before;
}

#if defined(__aarch64__)
#define FV_FLUSH_HALF (UINT64_C(1) << 19) /* FZ16: FMLAL obeys it, and <fenv.h> does not know it */

static inline uint64_t fv_float_control(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

/* And is what is subnormal as float16 not flushed? */
static inline int fv_float_nearest(void) {
    const uint64_t rounding = UINT64_C(3) << 22; /* RMode */
    return (fv_float_control() & (rounding | FV_FLUSH_HALF)) == 0;
}

/* Whether what is subnormal as float16 is flushed on this thread: as given from now on; returns whether it was. */
static inline int fv_float_flush_half(int flush) {
    const uint64_t before = fv_float_control(), after = flush ? before | FV_FLUSH_HALF : before & ~FV_FLUSH_HALF;
    if (after != before)
        __asm__ volatile("msr fpcr, %0" : : "r"(after) : "memory");
    return (before & FV_FLUSH_HALF) != 0;
}
#else
static inline int fv_float_nearest(void) { return fegetround() == FE_TONEAREST; }
#endif

#endif

#if !defined(__aarch64__)
static inline int fv_float_flush_half(int flush) { return flush; }
#endif

/* For the rest of a block, exceptions neither trap nor leave a flag. */
#define FV_HOLD_EXCEPTIONS()                                                                                           \
    __attribute__((cleanup(fv_float_mode_set), unused)) const fv_float_mode held_ = fv_float_hold()

#endif
