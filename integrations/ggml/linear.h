/* MUL_MAT. */
#ifndef FG_LINEAR_H
#define FG_LINEAR_H

#include "backend_threads.h"

bool fg_linear_serves(const struct ggml_tensor *op);
enum ggml_status fg_linear_compute(fg_backend *backend, struct ggml_tensor *op);

#endif
