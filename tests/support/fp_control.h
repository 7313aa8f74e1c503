/* The floating-point control register of the calling thread, where C's <fenv.h> does not reach: flush-to-zero.
 *
 * FP_FLUSH is what sets it: results and operands that are subnormal count as zero (MXCSR's FTZ and DAZ, FPCR's FZ,
 * which is both). It is 0 where the register is not known: then the register reads as 0 and nothing can be set.
 * FP_FLUSH_HALF: the same of float16 alone (FPCR's FZ16), 0 where there is none. */
#ifndef FOVEA_TESTS_FP_CONTROL_H
#define FOVEA_TESTS_FP_CONTROL_H

#include <stdint.h>

#if defined(__x86_64__)
#define FP_FLUSH UINT64_C(0x8040)
#define FP_FLUSH_HALF UINT64_C(0)

static inline uint64_t fp_control(void) {
    uint32_t value;
    __asm__ volatile("stmxcsr %0" : "=m"(value) : : "memory");
    return value;
}

static inline void fp_control_set(uint64_t control) {
    const uint32_t value = (uint32_t)control;
    __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory");
}
#elif defined(__aarch64__)
#define FP_FLUSH UINT64_C(0x1000000)
#define FP_FLUSH_HALF UINT64_C(0x80000)

static inline uint64_t fp_control(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value) : : "memory");
    return value;
}

static inline void fp_control_set(uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
#else
#define FP_FLUSH UINT64_C(0)
#define FP_FLUSH_HALF UINT64_C(0)

static inline uint64_t fp_control(void) { return 0; }

static inline void fp_control_set(uint64_t control) { (void)control; }
#endif

/* Sets or clears flush-to-zero, and leaves the rest as it is. */
static inline void fp_flush(int on) { fp_control_set((fp_control() & ~FP_FLUSH) | (on ? FP_FLUSH : 0)); }

#endif
