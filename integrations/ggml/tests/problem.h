/* An attention of ggml's, with data, for tests and the benchmark. */
#ifndef FG_PROBLEM_H
#define FG_PROBLEM_H

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

/* The keys that the mask shows. */
typedef enum mask_kind {
    MASK_ABSENT,
    MASK_CAUSAL,   /* the last rows of the keys */
    MASK_ALL,      /* zeros: what decoding has */
    MASK_PADDED,   /* the last eighth of keys is masked, as are rows beyond those of q */
    MASK_HOLES,    /* every third key but the first is masked */
    MASK_NUMBERS,  /* any number, some -inf */
    MASK_EMPTY_ROW /* causal; the first row sees nothing */
} mask_kind;

typedef struct problem {
    const char *name;
    int64_t head_dim, value_dim, heads, kv_heads, rows, keys, batch;
    enum ggml_type k_type, v_type;
    mask_kind mask;
    int64_t mask_heads, mask_batch; /* 0: 1 */
    float max_bias, softcap;
    int sinks;
    int views; /* 1: q, k, v are permuted views of larger tensors; 2: v is a view of k; 3: heads outermost in memory */
} problem;

typedef struct problem_tensors {
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *q, *k, *v, *mask, *sinks, *out;
    struct ggml_cgraph *graph;
} problem_tensors;

/* Makes tensors in memory of the CPU and fills them, the same for the same problem. */
problem_tensors problem_make(const problem *p);
void problem_free(problem_tensors *s);

/* The result in float64: [sequence][row][head][channel], as ggml has it. */
void problem_reference(const problem *p, const problem_tensors *s, double *out);

/* Root of the mean square of differences, relative to that of the reference. */
double problem_error(const float *out, const double *reference, int64_t n);

/* Uniform in [-1, 1), by a counter. */
float random_float(uint64_t *state);

/* Loads FOVEA_GGML_BACKEND, or what it is compiled with, and makes a backend; ends the program if it cannot. */
ggml_backend_reg_t load_fovea(void);
ggml_backend_t make_fovea(ggml_backend_reg_t reg, int threads);

#endif
