/* Reads GGUF files: settings, and named arrays of numbers, as llama.cpp publishes models.
 *
 *     gguf *file;
 *     if (gguf_open(path, &file, complaint) != 0) ...              the header is read and checked, nothing else
 *     const gguf_value *v = gguf_find(file, "llama.block_count");
 *     const gguf_tensor *t = gguf_find_tensor(file, "token_embd.weight");
 *     if (gguf_read_f32(file, t, floats, complaint) != 0) ...      one array at a time: a file may exceed memory
 *     gguf_close(file);
 *
 * Versions 2 and 3, little-endian. A model that is split into NAME-00001-of-0000N.gguf and so on is opened by its
 * first file, and is then as one. Files are untrusted input: every count, length, offset and type is checked before
 * it is used, names come once, arrays do not overlap and end within the file. Functions that can fail return 0, or
 * -1 with a sentence that names the file in the complaint. */
#ifndef MODELS_GGUF_H
#define MODELS_GGUF_H

#include "complain.h"

#include <fovea/fovea.h>

#include <stdbool.h>
#include <stdint.h>

enum { GGUF_DIMS = 4, GGUF_NAME_MOST = 64 };

/* Types of settings, as numbered in files. */
typedef enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS
} gguf_kind;

/* Bytes of a file's header, with no zero behind them. */
typedef struct gguf_text {
    const char *bytes;
    int64_t count;
} gguf_text;

typedef struct gguf_value {
    gguf_text key;
    gguf_kind kind;
    gguf_kind element;   /* of an array, which holds no arrays */
    int64_t count;       /* of an array; else 1 */
    const uint8_t *data; /* the elements, as they are in the file */
} gguf_value;

/* Element types that can be read, as numbered in files. */
typedef enum gguf_type {
    GGUF_F32S = 0,
    GGUF_F16S = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_IQ4_NL = 20,
    GGUF_BF16S = 30,
    GGUF_MXFP4 = 39
} gguf_type;

typedef struct gguf_tensor {
    char name[GGUF_NAME_MOST + 1];
    int dims;
    int64_t shape[GGUF_DIMS]; /* the first is that along which elements lie together; 1 beyond dims */
    gguf_type type;
    int64_t elements, begin, bytes; /* its place in the file */
    int part;                       /* which file of a split model, from 0 on */
} gguf_tensor;

/* One thread at a time. */
typedef struct gguf gguf;

/* *file is NULL after an error. From memory: bytes must stay; name stands for the path in complaints; one file
 * alone. */
int gguf_open(const char *path, gguf **file, complaint to);
int gguf_open_memory(const void *bytes, size_t size, const char *name, gguf **file, complaint to);
void gguf_close(gguf *file); /* NULL is allowed */
const char *gguf_path(const gguf *file);
const char *gguf_part_path(const gguf *file, int i); /* of a model's i-th file, from 0 on; NULL behind the last */
bool gguf_is_later_part(const char *name);           /* NAME-00002-of-0000N.gguf or later: not what is opened */

int64_t gguf_value_count(const gguf *file);
const gguf_value *gguf_value_at(const gguf *file, int64_t i);

/* Bytes of its data. */
int64_t gguf_value_bytes(const gguf_value *value);

/* The setting of that name, or NULL. */
const gguf_value *gguf_find(const gguf *file, const char *key);

/* Numbers that must be there, or may be absent (*value stays): integers of any kind from least to most; real
 * numbers. */
int gguf_integer(const gguf *file, const char *key, bool needed, int64_t least, int64_t most, int64_t *value,
                 complaint to);
int gguf_real(const gguf *file, const char *key, bool needed, double *value, complaint to);

/* The bytes of a text; NULL if it is absent or no text. */
gguf_text gguf_text_of(const gguf *file, const char *key);

/* A text that must be one of the words, of which a NULL is behind the last: its index. Absent, it is *which, unless
 * needed. */
int gguf_word(const gguf *file, const char *key, bool needed, const char *const *words, int *which, complaint to);

/* Is every setting one that this decoder honours for that architecture, or that has no effect on it? (gguf_keys.c) */
int gguf_keys_check(const gguf *file, const char *architecture, complaint to);

/* The next text of an array of texts: at is its data to begin with, and is called count times at most. */
gguf_text gguf_next_text(const uint8_t **at);

int64_t gguf_tensor_count(const gguf *file);
const gguf_tensor *gguf_tensor_at(const gguf *file, int64_t i);
const gguf_tensor *gguf_find_tensor(const gguf *file, const char *name); /* or NULL */

/* All elements of an array as floats: exact for F32, F16, BF16 and MXFP4; what ggml's formulas give in float32 for the
 * others. */
int gguf_read_f32(const fovea_context *ctx, const gguf *file, const gguf_tensor *tensor, float *values, complaint to);

/* An array as it is in the file, whose pages stay mapped until gguf_unmap(), even if the file is closed. A file that
 * another program makes shorter meanwhile ends this one. */
typedef struct gguf_rows {
    const uint8_t *data;
    int64_t row_bytes; /* of elements along the first size of its shape */
    void *pages;
    size_t page_bytes;
} gguf_rows;

int gguf_map(const gguf *file, const gguf_tensor *tensor, gguf_rows *rows, complaint to);
void gguf_unmap(gguf_rows *rows); /* rows of zeros are allowed */

/* Blocks (gguf_blocks.c): elements and bytes of one, 0 for a type that is not read; rows of whole
 * blocks as floats, after an error (a scale that is no number) with the library's sentence. */
enum { GGUF_TYPES = 64 };                  /* more than files number */
const char *gguf_type_name(uint32_t type); /* ggml's: "Q4_K"; "unknown" */
fovea_dtype gguf_dtype(gguf_type type);    /* the library's type of that name, 0 if it has none */
bool gguf_quantized(gguf_type type);
int gguf_block_elements(gguf_type type);
int gguf_block_bytes(gguf_type type);
fovea_status gguf_to_f32(const fovea_context *ctx, gguf_type type, const uint8_t *from, int64_t rows, int64_t columns,
                         float *to);

#endif
