/* A buffer type for weights: those of products are packed by fovea_linear_create() as they are loaded.
 *
 * A buffer reserves addresses for the bytes of its tensors. A weight that is packed gives its pages back, so it takes
 * what its map takes. get_tensor unpacks the same bytes. Tensors that are not packed lie there as they are, those of
 * other types as those that cannot be packed, for want of memory or for a scale that is NaN. */
#ifndef FG_WEIGHTS_H
#define FG_WEIGHTS_H

#include "backend_ggml.h"

/* The type; device, if it is not NULL, is the one that it belongs to from now on. */
ggml_backend_buffer_type_t fg_weights_type(ggml_backend_dev_t device);

/* Is this tensor, or the one that it is a view of, in such a buffer? */
bool fg_weights_hold(const struct ggml_tensor *tensor);

/* Is this a whole tensor in such a buffer, with maps or to be packed when it is first used? */
bool fg_weights_known(const struct ggml_tensor *tensor);

/* The maps of a known tensor, [ne[3]][ne[2]], for rows of float32. Packs them if that is still to be done. NULL if they
 * cannot be made, which was said: the tensor keeps its bytes. */
fovea_linear *const *fg_weights_maps(const struct ggml_tensor *weights);

/* Is this source of op a known tensor that a product multiplies by? Then its bytes are not needed. */
bool fg_weights_multiplied(const struct ggml_tensor *op, int source);

/* Does op write into a tensor in such a buffer? */
bool fg_weights_written(const struct ggml_tensor *op);
/* Does op read or write one? */
bool fg_weights_touched(const struct ggml_tensor *op);

/* Puts the bytes of a tensor, if its maps alone have them, back into its memory, where they stay: it takes twice as
 * much from then on. False after an error, which was said. */
bool fg_weights_bring(const struct ggml_tensor *tensor);
/* The tensor's bytes, which are in its memory, were changed: it is packed again when it is next multiplied by. */
void fg_weights_changed(const struct ggml_tensor *tensor);

#endif
