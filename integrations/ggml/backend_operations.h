/* Implementations of the operations of backend_operations.inc: all that backend.c and device.c know of one. */
#ifndef FG_BACKEND_OPERATIONS_H
#define FG_BACKEND_OPERATIONS_H

#include "backend_threads.h"

typedef struct fg_operation {
    bool (*serves)(const struct ggml_tensor *op); /* can it be computed? Data may be absent */
    enum ggml_status (*compute)(fg_backend *backend, struct ggml_tensor *op); /* after an error: fg_say() said why */
} fg_operation;

extern const fg_operation fg_operations[FG_OPERATIONS];

#endif
