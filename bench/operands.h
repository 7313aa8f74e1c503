/* Operands of a kernel that is timed by itself (kernel.c). */
#ifndef FOVEA_BENCH_OPERANDS_H
#define FOVEA_BENCH_OPERANDS_H

#include "kernels.h"

#include <stdint.h>

enum { INPUTS = 3, OUTPUTS = 4 };

/* The operands of one call; which are used and how, the operation's function says. */
typedef struct operands {
    int64_t m, n, k;
    float *in[INPUTS];
    float *out[OUTPUTS]; /* written, or changed in place */
    float *work;         /* what is in it afterwards means nothing */
    fv_keybits bits;     /* changed in place */
    uint8_t *mask;
    int truth;
    void *words; /* rows of in[0] as integers, where keys are int8 or weights in groups */
} operands;

enum { OPERANDS_GROUP = 128 }; /* channels that share a scale */

/* Does it multiply or unpack integers in groups? */
static inline int operands_in_groups(const fv_kernel *kernel) {
    return fv_format_of(kernel->format).scale == FV_SCALE_group;
}

/* Elements that each of them has room for: m x n, m x k and k x n. */
int64_t operands_room(const operands *o);

/* Makes and fills the operands, always the same; -1: no memory. in[2] has the kernel's type; in[1], too, where both
 * factors of a product do. */
int operands_make(operands *o, const fv_kernel *kernel);
void operands_free(operands *o);

#endif
