/* quantization= of fovea.Linear: weights of floats become integers as they are packed. */
#include "linear.h"
#include "linear_weights.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"int8", "int4", "q8_0", "q4_0", "q4_1", "q4_k"};
static const fovea_dtype types[] = {FOVEA_DTYPE_I8,   FOVEA_DTYPE_U4,   FOVEA_DTYPE_Q8_0,
                                    FOVEA_DTYPE_Q4_0, FOVEA_DTYPE_Q4_1, FOVEA_DTYPE_Q4_K};
enum { WORDS = sizeof words / sizeof words[0], GROUP = 32 };

int py_quant_of(PyObject *word, const char **quant, fovea_dtype *dtype) {
    *quant = NULL;
    if (!word || word == Py_None)
        return 0;
    const int place = py_word(word, "quantization", "None", words, WORDS);
    if (place < 0)
        return -1;
    *quant = words[place];
    *dtype = types[place];
    return 0;
}

const char *py_quant_known(const char *word) {
    for (int i = 0; i < WORDS; i++)
        if (strcmp(word, words[i]) == 0)
            return words[i];
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
    if (py_checked(status) < 0)
        return -1;
    part->weight = py_quantized_matrix(dtype, from.in, from.out, to, to + data, &weights->quantization);
    return 0;
}

fovea_matrix py_quantized_matrix(fovea_dtype dtype, int64_t in, int64_t out, const void *data, const void *scales,
                                 fovea_quantization *q) {
    fovea_matrix matrix = fovea_matrix_out_in(data, dtype, out, in);
    if (!py_dtype_scaled(dtype))
        return matrix;
    fovea_quantization_init(q);
    matrix.quantization = q;
    if (dtype == FOVEA_DTYPE_I8) {
        q->scales = scales;
        return matrix;
    }
    q->group_size = GROUP;
    q->group_scales = scales;
    q->scale_dtype = FOVEA_DTYPE_F16;
    return matrix;
}
