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
    fv_i8_word *words; /* rows of in[0] as integers, where keys are int8 */
} operands;

/* Elements that each of them has room for: m x n, m x k and k x n. */
int64_t operands_room(const operands *o);

/* Bytes of an element of the kernel's type. */
int64_t operands_size(const fv_kernel *kernel);

/* Makes and fills the operands, always the same; -1: no memory. in[2] has the kernel's type; in[1], too, where both
 * factors of a product do. */
int operands_make(operands *o, const fv_kernel *kernel);
void operands_free(operands *o);

#endif
