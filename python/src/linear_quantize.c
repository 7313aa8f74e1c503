/* quant= of fovea.Linear: weights of floats become integers as they are packed. */
#include "linear.h"
#include "linear_weights.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    fovea_dtype dtype;
} quants[] = {{"int8", FOVEA_DTYPE_I8},   {"int4", FOVEA_DTYPE_U4},   {"q8_0", FOVEA_DTYPE_Q8_0},
              {"q4_0", FOVEA_DTYPE_Q4_0}, {"q4_1", FOVEA_DTYPE_Q4_1}, {"q4_k", FOVEA_DTYPE_Q4_K}};
enum { QUANTS = sizeof quants / sizeof quants[0], GROUP = 32 };

int py_quant_of(PyObject *word, const char **quant, fovea_dtype *dtype) {
    *quant = NULL;
    if (!word || word == Py_None)
        return 0;
    for (int i = 0; PyUnicode_Check(word) && i < QUANTS; i++)
        if (PyUnicode_CompareWithASCIIString(word, quants[i].word) == 0) {
            *quant = quants[i].word;
            *dtype = quants[i].dtype;
            return 0;
        }
    return py_raise_not(word, "quant must be None, 'int8', 'int4', 'q8_0', 'q4_0', 'q4_1' or 'q4_k'");
}

const char *py_quant_known(const char *word) {
    for (int i = 0; i < QUANTS; i++)
        if (strcmp(word, quants[i].word) == 0)
            return quants[i].word;
    return NULL;
}

int py_weights_quantize(py_weights *weights, fovea_dtype dtype, fovea_quantize_stats *error) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    fovea_linear_part *part = weights->part;
    const fovea_matrix from = part->weight;
    fovea_quantize_options options;
    size_t data, scales;
    fovea_quantize_options_init(&options);
    fovea_quantize_stats_init(error);
    fovea_status status = fovea_quantize_size(dtype, from.in, from.out, &options, &data, &scales);
    if (status == FOVEA_OK && !(weights->memory = malloc(data + scales + 1)))
        status = FOVEA_ERROR_OUT_OF_MEMORY;
    char *to = weights->memory;
    PyThreadState *released = PyEval_SaveThread();
    if (status == FOVEA_OK)
        status = fovea_quantize(context->library, &from, dtype, &options, to, to + data, error);
    PyEval_RestoreThread(released);
    if (status != FOVEA_OK) {
        py_raise_status(status);
        return -1;
    }
    part->weight = fovea_matrix_out_in(to, dtype, from.out, from.in);
    if (!py_dtype_scaled(dtype))
        return 0;
    fovea_quantization *q = &weights->quantization;
    fovea_quantization_init(q);
    part->weight.quantization = q;
    if (dtype == FOVEA_DTYPE_I8) {
        q->scales = (const float *)(const void *)(to + data);
        return 0;
    }
    q->group_size = GROUP;
    q->group_scales = to + data;
    q->scale_dtype = FOVEA_DTYPE_F16;
    return 0;
}
