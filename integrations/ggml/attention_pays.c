/* Where attention was measured to be faster than ggml's CPU backend (docs/measurements.md; bench.c measures it): in all
 * shapes and types but two. */
#include "attention.h"

/* So many floating-point operations take a few microseconds, no more than ggml's scheduler does to change backends. */
enum { OPERATIONS_OF_SWITCH = 300000 };

bool fg_attention_pays(const struct ggml_tensor *op) {
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    const double pairs = (double)(q->ne[1] * q->ne[2] * q->ne[3]) * (double)k->ne[1];
    if (2 * pairs * (double)(k->ne[0] + v->ne[0]) < OPERATIONS_OF_SWITCH)
        return false;
    if (fg_type_of(k->type)->block == 1 && fg_type_of(v->type)->block == 1)
        return true;
    /* Quantised: a thread widens a key head. ggml's threads take a head of q each. */
    return 2 * k->ne[2] * q->ne[3] * q->ne[1] >= fg_options_info()->threads;
}
