/* The operations between attention and products, so that a graph stays in one place. All tensors are float32 unless a
 * function says otherwise. Every result is a fixed formula of its operands, so it does not depend on threads or CPU. */
#ifndef FG_ELEMENTWISE_H
#define FG_ELEMENTWISE_H

#include "backend_threads.h"

/* ADD, SUB, MUL, DIV: src[1] repeats. SCALE: x s + b, rounded twice. */
bool fg_binary_serves(const struct ggml_tensor *op);
enum ggml_status fg_add_compute(fg_backend *backend, struct ggml_tensor *op);
enum ggml_status fg_sub_compute(fg_backend *backend, struct ggml_tensor *op);
enum ggml_status fg_mul_compute(fg_backend *backend, struct ggml_tensor *op);
enum ggml_status fg_div_compute(fg_backend *backend, struct ggml_tensor *op);
bool fg_scale_serves(const struct ggml_tensor *op);
enum ggml_status fg_scale_compute(fg_backend *backend, struct ggml_tensor *op);

/* UNARY and GLU: those of elementwise_activations.c. */
bool fg_unary_serves(const struct ggml_tensor *op);
bool fg_glu_serves(const struct ggml_tensor *op);
enum ggml_status fg_activation_compute(fg_backend *backend, struct ggml_tensor *op);

/* CPY, CONT, DUP: float32, float16 and bfloat16, any strides. */
bool fg_copy_serves(const struct ggml_tensor *op);
enum ggml_status fg_copy_compute(fg_backend *backend, struct ggml_tensor *op);
/* GET_ROWS from all types that Fovea knows. SET_ROWS to 16 bits, q8_0, q4_0 and q4_1, too. */
bool fg_get_rows_serves(const struct ggml_tensor *op);
enum ggml_status fg_get_rows_compute(fg_backend *backend, struct ggml_tensor *op);
bool fg_set_rows_serves(const struct ggml_tensor *op);
enum ggml_status fg_set_rows_compute(fg_backend *backend, struct ggml_tensor *op);

/* NORM, RMS_NORM. */
bool fg_norm_serves(const struct ggml_tensor *op);
enum ggml_status fg_norm_compute(fg_backend *backend, struct ggml_tensor *op);
enum ggml_status fg_rms_norm_compute(fg_backend *backend, struct ggml_tensor *op);
/* SOFT_MAX with scale, mask, ALiBi and sinks. */
bool fg_soft_max_serves(const struct ggml_tensor *op);
enum ggml_status fg_soft_max_compute(fg_backend *backend, struct ggml_tensor *op);
/* ROPE of pairs that are adjacent or halves; float16, too. */
bool fg_rope_serves(const struct ggml_tensor *op);
enum ggml_status fg_rope_compute(fg_backend *backend, struct ggml_tensor *op);
void fg_ropes_free(fg_backend *backend);

/* ----------------------------------------------------------------------------------------------- for their files -- */

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

/* A parameter of op, as a float. */
float fg_parameter(const struct ggml_tensor *op, int index);

/* Runs task(op, first, end) over rows [0, rows) of `bytes` bytes each, on the backend's threads if that is worth while.
 * A task that returns false fails, having said why. */
typedef bool fg_rows_task(const struct ggml_tensor *op, int64_t first, int64_t end);
enum ggml_status fg_for_rows(fg_backend *backend, const struct ggml_tensor *op, int64_t rows, int64_t bytes,
                             fg_rows_task *task);

#endif
