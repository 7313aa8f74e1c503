/* Packs weights (weights_pack.h). */
#include "weights_pack.h"
#include "backend_options.h"

#include <pthread.h>

const fovea_context *fg_weights_context(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static fovea_context *context;
    pthread_mutex_lock(&lock);
    if (!context) {
        fovea_context_options options;
        fovea_context_options_init(&options);
        options.threads = 1;
        fg_status(fovea_context_create(&options, &context), "weights");
    }
    pthread_mutex_unlock(&lock);
    return context;
}

bool fg_weights_serve(const struct ggml_tensor *weights) {
    const fg_type *type = fg_type_of(weights->type);
    return type && weights->ne[0] > 0 && weights->ne[1] > 0 && weights->ne[2] > 0 && weights->ne[3] > 0 &&
           weights->ne[0] % type->block == 0 && weights->nb[0] == (size_t)type->bytes &&
           weights->nb[1] % (size_t)type->bytes == 0;
}

fovea_linear *fg_weights_pack(const fovea_context *context, const struct ggml_tensor *weights, const void *data) {
    const fg_type *type = fg_type_of(weights->type);
    fovea_linear_desc desc;
    fovea_linear *made = NULL;
    fovea_linear_desc_init(&desc);
    desc.in_features = weights->ne[0];
    desc.dtype = FOVEA_DTYPE_F32;
    desc.y_dtype = FOVEA_DTYPE_F32;
    desc.arithmetic = type->block > 1 ? fg_options_arithmetic() : FOVEA_ARITHMETIC_DEFAULT;
    desc.part.weight = fovea_matrix_out_in(data, type->dtype, weights->ne[1], weights->ne[0]);
    desc.part.weight.out_stride = (int64_t)weights->nb[1] / type->bytes * type->block;
    return fg_status(fovea_linear_create(context, &desc, &made), weights->name) == GGML_STATUS_SUCCESS ? made : NULL;
}
