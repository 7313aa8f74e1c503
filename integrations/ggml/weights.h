/* A buffer type for weights: those of MUL_MAT are packed by fovea_linear_pack() as they are loaded.
 *
 * A buffer reserves addresses for the bytes of its tensors. A weight that is packed gives its pages back, so it takes
 * what its map takes. get_tensor unpacks the same bytes. Tensors that are not packed lie there as they are. */
#ifndef FG_WEIGHTS_H
#define FG_WEIGHTS_H

#include "backend.h"

/* The type; device, if it is not NULL, is the one that it belongs to from now on. */
ggml_backend_buffer_type_t fg_weights_type(ggml_backend_dev_t device);

/* Is this tensor, or the one that it is a view of, in such a buffer? */
bool fg_weights_hold(const struct ggml_tensor *tensor);

/* Is it faster to pack these than to leave them to the CPU backend? A program asks of all weights of a model, then makes
 * buffers. */
bool fg_weights_pay(const struct ggml_tensor *weights);

/* Are most weights of the process, of those that could be packed, packed? */
bool fg_weights_most(void);

/* Can MUL_MAT's weights of this type and shape be packed? */
bool fg_weights_serve(const struct ggml_tensor *weights);

/* Is this a whole tensor in such a buffer, with maps or to be packed when it is first used? */
bool fg_weights_known(const struct ggml_tensor *tensor);

/* The maps of a known tensor, [ne[3]][ne[2]], for rows of float32. Packs them if that is still to be done. NULL after
 * an error, which was said. */
fovea_linear *const *fg_weights_maps(const struct ggml_tensor *weights);

/* True if the tensor's bytes are in its maps alone. */
bool fg_weights_absent(const struct ggml_tensor *tensor);

/* Does an operation read a tensor whose bytes are in its maps alone? Only MUL_MAT's weights may be. */
bool fg_weights_misused(const struct ggml_tensor *op);
/* The same of a tensor that is, or may come to be, in such a buffer: operations must not be given one. */
bool fg_weights_misplaced(const struct ggml_tensor *op);

/* Packs one matrix of a tensor from memory, with the tensor's strides. NULL after an error, which was said. */
fovea_linear *fg_weights_pack(const struct ggml_tensor *weights, const void *data);

/* Copies the bytes of a tensor in such a buffer, in ggml's format: size of them from offset on. */
bool fg_weights_read(const struct ggml_tensor *tensor, void *data, size_t offset, size_t size);

/* Maps that this thread executes use these threads, until NULL is set: a map is packed before any backend is there, and
 * so before a number of threads is known. */
void fg_weights_run_on(const fovea_context *threads);

#endif
