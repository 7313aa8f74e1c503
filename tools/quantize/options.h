/* The command line of fovea-quantize. */
#ifndef QUANTIZE_OPTIONS_H
#define QUANTIZE_OPTIONS_H

#include "types.h"

#include <stdint.h>

typedef struct options {
    const char *input, *output;
    const char *keep, *tensor_types; /* lists (types.h), or NULL */
    int type, embedding, head;       /* type; of token embeddings and of the output matrix, of GGUF */
    int threads;
    int64_t group_size; /* 0: the default */
    bool search, requantize, force;
} options;

/* -1, or what the program ends with. */
int options_read(int argc, char **argv, options *opts);

#endif
