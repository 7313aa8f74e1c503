/* The operations between attention and products, so that a graph stays in one place. All tensors are float32 unless a
 * function says otherwise. Every result is a fixed formula of its operands, so it does not depend on threads or CPU. */
#ifndef FG_ELEMENTWISE_H
#define FG_ELEMENTWISE_H

#include "operations.h"

void fg_ropes_free(fg_backend *backend);

/* Rows of the first axis of a tensor: index r counts the other three, the second axis first. */
static inline int64_t fg_rows(const struct ggml_tensor *t) { return t->ne[1] * t->ne[2] * t->ne[3]; }
static inline char *fg_row(const struct ggml_tensor *t, int64_t r) {
    return (char *)t->data + (size_t)(r % t->ne[1]) * t->nb[1] + (size_t)(r / t->ne[1] % t->ne[2]) * t->nb[2] +
           (size_t)(r / t->ne[1] / t->ne[2]) * t->nb[3];
}

/* Is the tensor of this type, with its first axis contiguous? */
bool fg_is_plain(const struct ggml_tensor *t, fovea_dtype dtype);
/* Is it such a one of float32, with strides that fg_tensor() can tell? */
bool fg_is_strided(const struct ggml_tensor *t);
/* float32, float16 or bfloat16? */
bool fg_is_float(const struct ggml_tensor *t);
bool fg_is_named(const struct ggml_tensor *t, const char *type);

/* [channel, head, token, sequence] as Fovea has it: sequence, head, token, channel. */
fovea_tensor fg_heads_tensor(const struct ggml_tensor *t);

/* Is there a row of this number? Says so if not. */
bool fg_in_range(const struct ggml_tensor *op, int64_t row, int64_t rows);

/* A parameter of op, as a float. */
float fg_parameter(const struct ggml_tensor *op, int index);

/* Runs task(op, first, end) over rows [0, rows) of `bytes` bytes each, on the backend's threads if that is worth while.
 * A task that returns false fails, having said why. */
typedef bool fg_rows_task(const struct ggml_tensor *op, int64_t first, int64_t end);
enum ggml_status fg_for_rows(fg_backend *backend, const struct ggml_tensor *op, int64_t rows, int64_t bytes,
                             fg_rows_task *task);

#endif
