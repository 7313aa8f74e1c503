/* ggml's CPU backend, for operations on tensors in our buffers that this backend cannot compute itself: products with
 * weights that cannot be packed, and whatever else reads or writes a tensor that a program placed there. */
#ifndef FG_DELEGATE_H
#define FG_DELEGATE_H

#include "backend_threads.h"

bool fg_delegate_serves(const struct ggml_tensor *op);

/* Computes op, whose operands and result have their bytes in memory. */
enum ggml_status fg_delegate_compute(fg_backend *backend, const struct ggml_tensor *op);

void fg_delegate_free(fg_backend *backend);

#endif
