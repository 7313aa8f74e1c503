/* Tensors, one after the other and a piece of rows at a time: read, quantized, written; a line about each. */
#ifndef QUANTIZE_CONVERT_H
#define QUANTIZE_CONVERT_H

#include "arrays.h"
#include "whole_file.h"

/* Writes all tensors to o: of each its integers or blocks, then its scales, or its bytes; and then what end writes. */
typedef int convert_end(whole_file *o, const array *t, complaint to);
int convert(const options *opts, const arrays *a, whole_file *o, convert_end *end, complaint to);

/* Bytes that a tensor, and all of them, become, without what formats add. */
int64_t convert_bytes_of(const array *t);
int64_t convert_bytes(const arrays *a);

/* The formats; each writes o, which is begun, to its end. (write_gguf.c, write_safetensors.c) */
int write_gguf(const options *opts, const arrays *a, whole_file *o, complaint to);
int write_safetensors(const options *opts, const arrays *a, whole_file *o, complaint to);

/* config.json in the folder of the safetensors file, with its quantization_config: text to be freed; NULL after a
 * complaint. */
char *write_config(const options *opts, const arrays *a, complaint to);

#endif
