/* The weights of fovea.MultiHead() while it is made (multihead_weights.c). */
#ifndef PY_MULTIHEAD_WEIGHTS_H
#define PY_MULTIHEAD_WEIGHTS_H

#include "linear_weights.h"

enum { PY_W_Q, PY_W_K, PY_W_V, PY_W_O, PY_W_FUSED, PY_W_OUTER_Q, PY_W_OUTER_K, PY_W_OUTER_V, PY_W_COUNT };
enum { PY_MERGED = 64, PY_ROLES = 3 };

typedef struct py_making {
    py_core *core;
    long long heads, kv_heads, head_dim, value_dim, q_tokens, kv_tokens, shape[3];
    PyObject *matrices[PY_W_COUNT], *biases[PY_W_COUNT], *merged;
    const char *form, *inputs, *layout, *order, *fold_values, *merge;
    PyObject *dtype, *arithmetic, *cache_dtype, *norms[2]; /* norms: of q and k */
    PyObject *quant;
    bool in_first, typed, floats, biased;     /* typed: the type of biases is known; floats: to be float32 */
    fovea_dtype types[PY_W_COUNT];            /* of what the weights multiply, where they are given */
    bool quantized;                           /* some weights are, */
    fovea_arithmetic arithmetic_of_quantized; /* and have that */
    fovea_mha_weights weights;
    fovea_matrix merged_matrices[PY_MERGED];
    py_array arrays[2 * PY_W_COUNT + PY_MERGED + 2];
    int opened;
    /* Read from a fovea.Linear: its parts; its rows by roles, if it is fused; biases converted to float32. */
    PyObject *stored[PY_W_COUNT];
    fovea_quantization quantization[PY_W_COUNT];
    void *rows[4 * PY_ROLES + PY_W_COUNT + 2];
    int taken;
} py_making;

/* A matrix with its bias, by the constructor's names. */
typedef struct py_mha_place {
    const char *name, *bias_name;
    size_t matrix, bias, head_stride; /* in fovea_mha_weights; head_stride 0: none */
} py_mha_place;
extern const py_mha_place py_mha_places[PY_W_COUNT];

static inline fovea_matrix *py_making_matrix(py_making *m, int i) {
    return (fovea_matrix *)(void *)((char *)&m->weights + py_mha_places[i].matrix);
}

/* Opens all weights, and the biases among them. 0, or -1 with an exception. */
int py_making_open(py_making *m);
int py_making_norms(py_making *m, int64_t head_dim);
void py_making_close(py_making *m);

/* multihead_linear.c: opens weight i, which is a fovea.Linear, or an array that quantization= makes one of. 0, or -1
 * with an exception. */
bool py_making_is_linear(const py_making *m, int i);
int py_making_linear(py_making *m, int i);

/* Is arithmetic= one of quantized weights alone? */
bool py_making_integers(const py_making *m);

#endif
