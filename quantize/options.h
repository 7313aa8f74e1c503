/* The command line of fovea-quantize. */
#ifndef QUANTIZE_OPTIONS_H
#define QUANTIZE_OPTIONS_H

#include <fovea/fovea.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    const char *input, *output, *keep; /* keep: patterns parted by commas, or NULL */
    int type, threads;
    int64_t group_size; /* 0: the default */
    bool search, force;
} options;

/* -1, or what the program ends with. */
int options_read(int argc, char **argv, options *opts);

fovea_dtype options_dtype(const options *opts);
const char *options_type_name(const options *opts);
bool options_blocks(const options *opts); /* written as GGUF; else as safetensors */

#endif
