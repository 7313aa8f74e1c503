/* Packing of single matrices. */
#ifndef FG_WEIGHTS_PACK_H
#define FG_WEIGHTS_PACK_H

#include "backend_ggml.h"

/* Can MUL_MAT's weights of this type and shape be packed? */
bool fg_weights_serve(const struct ggml_tensor *weights);

/* Packs one matrix of a tensor from memory, with the tensor's strides, on a context's threads. NULL after an error,
 * which was said. */
fovea_linear *fg_weights_pack(const fovea_context *context, const struct ggml_tensor *weights, const void *data);

/* A context for weights that are placed before any backend is there, and so before a number of threads is known: the
 * calling thread's alone. NULL after an error, which was said. */
const fovea_context *fg_weights_context(void);

#endif
