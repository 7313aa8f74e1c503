/* Packing of single matrices, and the threads that packed ones run on. */
#ifndef FG_WEIGHTS_PACK_H
#define FG_WEIGHTS_PACK_H

#include "backend_ggml.h"

/* Can MUL_MAT's weights of this type and shape be packed? */
bool fg_weights_serve(const struct ggml_tensor *weights);

/* Packs one matrix of a tensor from memory, with the tensor's strides. NULL after an error, which was said. */
fovea_linear *fg_weights_pack(const struct ggml_tensor *weights, const void *data);

/* Maps that this thread executes use these threads, until NULL is set: a map is packed before any backend is there, and
 * so before a number of threads is known. */
void fg_weights_run_on(const fovea_context *threads);

#endif
