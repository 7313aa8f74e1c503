/* Where attention was measured to be faster than ggml's CPU backend (docs/measurements.md; bench.c measures it): in all
 * shapes and types but two. */
#include "attention.h"

#include <pthread.h>

/* So many floating-point operations take a few microseconds, no more than ggml's scheduler does to change backends. */
enum { OPERATIONS_OF_SWITCH = 300000 };

static int threads = 1;

static void count_threads(void) {
    fovea_context *context;
    fovea_info info;
    fovea_info_init(&info);
    if (fovea_context_create(NULL, &context) != FOVEA_OK)
        return;
    if (fovea_context_info(context, &info) == FOVEA_OK)
        threads = info.threads;
    fovea_context_destroy(context);
}

bool fg_attention_pays(const struct ggml_tensor *op) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    const double pairs = (double)(q->ne[1] * q->ne[2] * q->ne[3]) * (double)k->ne[1];
    if (2 * pairs * (double)(k->ne[0] + v->ne[0]) < OPERATIONS_OF_SWITCH)
        return false;
    if (fg_type_of(k->type)->block == 1 && fg_type_of(v->type)->block == 1)
        return true;
    /* Quantised: a thread widens a key head. ggml's threads take a head of q each. */
    pthread_once(&once, count_threads);
    return 2 * k->ne[2] * q->ne[3] * q->ne[1] >= threads;
}
