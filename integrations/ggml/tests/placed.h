/* Checks, tensors and weights for the tests. */
#ifndef FG_PLACED_H
#define FG_PLACED_H

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <fovea/fovea.h>
#include <stdbool.h>

/* Failures so far, and one more unless good. */
extern int failed;
void check(bool good, const char *what, const char *name);

/* The tier that the backend has in this environment. Without kernels it takes nothing unless it is told to. */
fovea_isa tier(void);
bool takes_nothing(void);
/* FOVEA_GGML=all? */
bool takes_all(void);

/* Loads ggml's backends and ours; ends the program, with SKIPPED, where ours takes nothing. */
ggml_backend_reg_t begin(void);
/* The program's status, which is also printed. */
int end(void);

/* A context for `tensors` tensors and a graph, without memory for their data. */
struct ggml_context *context_of(int tensors);

/* Rows of random numbers in this type; to be freed. */
void *weights_of(enum ggml_type type, int64_t in, int64_t rows, uint64_t seed);

/* Random numbers into a tensor of float32 in the CPU's memory. */
void fill(struct ggml_tensor *t, uint64_t seed);

/* Memory for the tensors of a context, marked as weights. */
ggml_backend_buffer_t place(struct ggml_context *ctx, ggml_backend_buffer_type_t type);

#endif
