/* Taken from the program that loads the backend: ggml's functions, and the numbers of its operations and types.
 *
 * Nothing is linked. Functions are those of the library that calls ggml_backend_init(), so a process may hold several
 * ggmls. Numbers of operations and types differ between releases, and are looked up by name. The headers that this file
 * was compiled with are compared with the program in use: fg_ggml_load() refuses what differs. */
#ifndef FG_BACKEND_GGML_H
#define FG_BACKEND_GGML_H

#include <ggml-backend-impl.h>
#include <ggml.h>

#include <fovea/fovea.h>
#include <stdbool.h>

/* A function is added here to be had as fg_ggml.NAME. */
#define FG_FUNCTIONS(F)                                                                                                \
    F(backend_buffer_init)                                                                                             \
    F(backend_buft_is_host)                                                                                            \
    F(backend_cpu_buffer_from_ptr)                                                                                     \
    F(backend_cpu_buffer_type)                                                                                         \
    F(backend_dev_backend_reg)                                                                                         \
    F(backend_dev_by_type)                                                                                             \
    F(backend_dev_supports_op)                                                                                         \
    F(backend_free)                                                                                                    \
    F(backend_get_device)                                                                                              \
    F(backend_graph_compute)                                                                                           \
    F(backend_init_by_type)                                                                                            \
    F(backend_reg_get_proc_address)                                                                                    \
    F(backend_tensor_set_2d)                                                                                           \
    F(blck_size)                                                                                                       \
    F(build_forward_expand)                                                                                            \
    F(flash_attn_ext)                                                                                                  \
    F(flash_attn_ext_add_sinks)                                                                                        \
    F(free)                                                                                                            \
    F(get_name)                                                                                                        \
    F(glu_op_name)                                                                                                     \
    F(graph_n_nodes)                                                                                                   \
    F(graph_node)                                                                                                      \
    F(graph_overhead)                                                                                                  \
    F(init)                                                                                                            \
    F(nbytes)                                                                                                          \
    F(new_graph)                                                                                                       \
    F(new_tensor_4d)                                                                                                   \
    F(op_name)                                                                                                         \
    F(set_name)                                                                                                        \
    F(tensor_overhead)                                                                                                 \
    F(type_name)                                                                                                       \
    F(type_size)                                                                                                       \
    F(unary_op_name)                                                                                                   \
    F(version)                                                                                                         \
    F(view_4d)

typedef struct fg_functions {
#define FG_MEMBER(name) __typeof__(ggml_##name) *name;
    FG_FUNCTIONS(FG_MEMBER)
#undef FG_MEMBER
} fg_functions;

extern fg_functions fg_ggml;

/* Element types that both libraries know: floats, and blocks of quantized weights. */
typedef struct fg_type {
    const char *name; /* as ggml_type_name() has it */
    fovea_dtype dtype;
    int64_t block, bytes; /* elements of a block, and its bytes */
    int number;           /* in the program in use */
} fg_type;

/* The type of this number, or NULL. */
const fg_type *fg_type_of(enum ggml_type number);
/* Each of them, from 0 on; NULL after the last. */
const fg_type *fg_type_at(int index);

/* A tensor as Fovea has it, with the axes in the opposite order; of blocks data, type and shape only. */
fovea_tensor fg_tensor(const struct ggml_tensor *t);

/* True for operations that only give memory another shape, and for NONE. */
bool fg_is_view(enum ggml_op op);
/* NONE's number in the program in use. */
enum ggml_op fg_op_none(void);

/* The operations that the backend computes. */
#define FG_OPERATION(name, serves, compute) FG_##name,
typedef enum fg_op {
#include "backend_operations.inc"
    FG_OPERATIONS
} fg_op;
#undef FG_OPERATION
extern const char *const fg_op_names[FG_OPERATIONS];

/* Does it multiply by src[0], which may be packed weights? */
static inline bool fg_is_product(fg_op op) { return op == FG_MUL_MAT || op == FG_MUL_MAT_ID; }

/* The operation of this number in the program in use; FG_OPERATIONS: none of them. */
fg_op fg_op_of(enum ggml_op number);

/* Finds all of the above, once. caller: an address in the code that called the backend. False, with one line on stderr,
 * if the program cannot be served. */
bool fg_ggml_load(void *caller);

/* One line on stderr, which begins with "ggml-fovea: ". */
void fg_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* GGML_STATUS_SUCCESS; else says what failed. */
enum ggml_status fg_status(fovea_status status, const char *what);

#endif
