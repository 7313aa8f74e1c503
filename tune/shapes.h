/* Shapes: what is executed, from words, presets and logs. */
#ifndef TUNE_SHAPES_H
#define TUNE_SHAPES_H

#include "attention/plan/knobs.h"
#include "linear/knobs.h"
#include "options.h"
#include "words.h"

/* The mask of a shape with a document mask has this many consecutive documents: a query sees the keys of its own. */
enum { TUNE_DOCUMENTS = 8 };

/* An operation to execute: an attention, or a linear map of `rows` rows. */
typedef struct tune_shape {
    bool linear;
    fovea_attention_desc attention;
    int64_t rows, in, out;
    fovea_dtype dtype; /* of a linear map: of weights, and of x and y unless it is of integers */
} tune_shape;

/* Reads "batch=1 q_heads=12 ... causal=top_left" or "linear rows=512 in=768 out=768"; false and a sentence if it is no
 * shape. */
bool tune_shape_read(const char *text, tune_shape *shape, char error[CLI_WORDS_ERROR]);

/* A short name, as b1_h12_q512_kv512_d64 or r512_in768_out768_bf16; returns text. */
const char *tune_shape_name(const tune_shape *shape, char *text, size_t size);

/* Its operation and keys. */
fv_tuning_op tune_shape_keys(const tune_shape *shape, int64_t key[FV_TUNING_KEYS]);

/* The operations that are measured with operands in no cache. */
static inline bool tune_is_cold(fv_tuning_op operation) {
    return operation % 2 == FV_TUNING_attention_few_f32 % 2; /* operations.inc */
}
static inline bool tune_is_linear(fv_tuning_op operation) { return operation >= FV_TUNING_linear_f32; }

/* The type of x and y of a linear map. */
static inline fovea_dtype tune_x_dtype(const tune_shape *shape) {
    return fv_dtype_quantized(shape->dtype) ? FOVEA_DTYPE_F32 : shape->dtype;
}

/* Operations and bytes of an execution. */
double tune_flops(const tune_shape *shape);
double tune_bytes(const tune_shape *shape);

/* Its work, by what bounds its time: bytes if operands come from memory, else operations. */
double tune_work(const tune_shape *shape);

/* All shapes that the options name; the number of them, or -1 and a sentence to stderr. The caller frees *shapes. */
int tune_shapes(const tune_options *options, tune_shape **shapes);

#endif
