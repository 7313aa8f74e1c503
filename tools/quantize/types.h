/* The types of tensors that are written, and which of them a tensor becomes (docs/quantize.md has the rule). */
#ifndef QUANTIZE_TYPES_H
#define QUANTIZE_TYPES_H

#include <fovea/fovea.h>

#include <stdbool.h>

typedef enum tensor_type {
    TYPE_KEEP,
    TYPE_Q8_0,
    TYPE_Q4_0,
    TYPE_Q4_1,
    TYPE_Q4_K,
    TYPE_INT8,
    TYPE_INT4,
    TYPES
} tensor_type;

/* As options name them. */
#define TYPES_OF_GGUF "q8_0 q4_0 q4_1 q4_k"
#define TYPES_OF_SAFETENSORS "int8 int4"

const char *type_name(tensor_type t);
fovea_dtype type_dtype(tensor_type t);
bool type_in_gguf(tensor_type t);
int type_block(tensor_type t); /* elements of a block of GGUF's */
unsigned type_gguf(tensor_type t,
                   unsigned *file_type); /* GGUF's number of it, and of files of which most tensors have it */

/* "PATTERN=TYPE", parted by commas, of GGUF's types and keep: is that what it is? If not, *wrong is where it is not. */
bool types_valid(const char *list, const char **wrong);

/* The type of the first pattern that the name fits; -1: it fits none. */
int types_of(const char *list, const char *name);

/* Does the name fit one of the patterns, which are parted by commas? NULL: none. */
bool fits(const char *patterns, const char *name);

#endif
