/* Tensors, one after the other: read, quantised, written; a line about each. */
#ifndef QUANTIZE_CONVERT_H
#define QUANTIZE_CONVERT_H

#include "arrays.h"
#include "output.h"

/* Writes what a tensor became: its integers or blocks, then its scales; or its bytes. scales NULL: none. */
typedef int convert_write(void *arg, const array *t, const void *data, const void *scales);

int convert(const options *opts, const arrays *a, convert_write *write, void *arg, complaint to);

/* Bytes that all tensors become, without what formats add. */
int64_t convert_bytes(const arrays *a);

/* The formats; each writes o, which is begun, to its end. (write_gguf.c, write_safetensors.c) */
int write_gguf(const options *opts, const arrays *a, output *o, complaint to);
int write_safetensors(const options *opts, const arrays *a, output *o, complaint to);

/* config.json beside the safetensors file, with its quantization_config: text to be freed; NULL after a complaint. */
char *write_config(const options *opts, const arrays *a, complaint to);

#endif
