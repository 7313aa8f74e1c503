/* Functions of the rows of backend_operations.inc, each in the file that is named like it, or in elementwise*.c. */
#ifndef FG_OPERATIONS_H
#define FG_OPERATIONS_H

#include "backend_threads.h"

#define FG_OPERATION(name, serves, compute)                                                                            \
    bool fg_##serves(const struct ggml_tensor *op);                                                                    \
    enum ggml_status fg_##compute(fg_backend *backend, struct ggml_tensor *op);
#include "backend_operations.inc"
#undef FG_OPERATION

#endif
