/* A trial of a kernel for its golden results (golden.h): draws from one stream, and hashes of what went in and came
 * out. */
#ifndef FOVEA_TESTS_GOLDEN_TRIAL_H
#define FOVEA_TESTS_GOLDEN_TRIAL_H

#include "floats.h"
#include "fp_control.h"
#include "golden.h"
#include "rng.h"

enum { MOST = 1 << 16 }; /* elements of an operand */

/* The kernel, the draws, and the hashes so far. */
typedef struct golden {
    const fv_kernel *kernel;
    bool flush;
    rng r;
    golden_hash hash;
} golden;

static inline void took(golden *g, const float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        g->hash.inputs = fnv_u32(g->hash.inputs, float_bits(values[i]));
}

static inline void gave(golden *g, const float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        g->hash.outputs = fnv_u32(g->hash.outputs, float_bits(values[i]));
}

/* n numbers of ordinary size, one in 16 of them small or subnormal. */
static inline void draw(golden *g, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        to[i] = rng_normal(&g->r);
        const int64_t kind = rng_below(&g->r, 16);
        to[i] *= kind == 0 ? 0x1p-130f : kind == 1 ? 0x1p-70f : 1.0f;
    }
    took(g, to, n);
}

static inline void begin(const golden *g) { fp_flush(g->flush); }
static inline void end(void) { fp_flush(false); }

/* The operations of 16-bit types (golden_half.c). */
void golden_pairs(golden *g);
void golden_amx_order(golden *g);
void golden_pack_columns(golden *g);
void golden_pack_rows(golden *g);
void golden_pack_steps(golden *g);
void golden_unpack(golden *g);
void golden_multiply_widen(golden *g);
void golden_widen(golden *g);
void golden_narrow(golden *g);

/* Those of few rows (golden_few.c). */
void golden_keys(golden *g);
void golden_few(golden *g);

/* Those of integers in groups (golden_groups.c). */
void golden_quantize(golden *g);
void golden_scales(golden *g);
void golden_expand(golden *g);
void golden_unpack_groups(golden *g);
void golden_multiply_groups(golden *g);

#endif
