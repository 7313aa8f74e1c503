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
    const char *type; /* as safetensors names it: "F32" */
    bool quantise;
    size_t data, scales; /* bytes that quantising makes */
    const gguf_tensor *in_gguf;
    safetensors *file; /* or that of this one */
    const safetensors_tensor *in_file;
} array;

typedef struct arrays {
    weights *w;
    array *at;
    int64_t count, quantised, unfit; /* unfit: matrices whose rows are no whole blocks or groups */
} arrays;

/* Opens the input and decides what is quantised; 0, or -1 after a complaint. arrays_close() in either case. */
int arrays_open(const options *opts, arrays *a, complaint to);
void arrays_close(arrays *a);

/* The bytes of a tensor as they are in the file. */
int arrays_read(const arrays *a, const array *t, void *bytes, complaint to);

#endif
