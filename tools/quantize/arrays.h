/* The tensors of a model, wherever they are, and what becomes of each. */
#ifndef QUANTIZE_ARRAYS_H
#define QUANTIZE_ARRAYS_H

#include "options.h"
#include "safetensors.h"
#include "weights.h"

enum { ARRAY_DIMS = 8 };

typedef struct array {
    const char *name;
    int dims;
    int64_t shape[ARRAY_DIMS]; /* as safetensors has it: the last is that along which elements lie together */
    int64_t elements, bytes;
    int64_t rows, columns; /* of a matrix, or of several behind each other */
    const char *stored;    /* its type as safetensors names it: "F32" */
    tensor_type type;      /* that it becomes */
    const char *why;       /* not that of --type, in a word or two */
    size_t data, scales;   /* bytes that quantizing makes */
    const gguf_tensor *in_gguf;
    safetensors *file; /* or that of this one */
    const safetensors_tensor *in_file;
} array;

typedef struct arrays {
    weights *w;
    array *at;
    int64_t count, quantized;
    int64_t already;       /* that have their type */
    int64_t unfit, others; /* matrices that are kept, or have a type of smaller blocks, since rows are no whole ones */
} arrays;

/* Opens the input and decides what is quantized; 0, or -1 after a complaint. arrays_close() in either case. */
int arrays_open(const options *opts, arrays *a, complaint to);
void arrays_close(arrays *a);

/* Bytes [first, first + count) of a tensor as they are in the file. */
int arrays_read(const arrays *a, const array *t, int64_t first, int64_t count, void *bytes, complaint to);

/* The type of its elements as floats; 0: it has none. */
fovea_dtype array_dtype(const array *t);

/* Is one of the input's files, or its config.json, this one? */
bool arrays_include(const arrays *a, const char *path);

#endif
