/* The arrays of a model by their names, wherever they are: in a GGUF file, a safetensors file, or the files that a
 * model.safetensors.index.json lists. */
#ifndef MODELS_WEIGHTS_H
#define MODELS_WEIGHTS_H

#include "gguf.h"
#include "model_source.h"

/* One thread at a time. */
typedef struct weights weights;

/* path: a file of either format, or a folder that has model.safetensors, such an index, or one model in GGUF. */
int weights_open(const char *path, weights **w, complaint to);
void weights_close(weights *w);                       /* NULL is allowed */
gguf *weights_gguf(const weights *w);                 /* or NULL */
const model_source *weights_source(const weights *w); /* the other's safetensors, or NULL */
const char *weights_path(const weights *w);           /* for complaints */
const char *weights_folder(const weights *w);

/* Rows and columns (a vector has 0 rows): the last index is that of the columns, which lie together. A stack of
 * matrices has the rows of all. */
bool weights_shape(const weights *w, const char *name, int64_t *rows, int64_t *columns);
int64_t weights_stack(const weights *w, const char *name); /* matrices of such a stack; 1 of any other array */

/* An array of rows x columns (rows 0: a vector; 1: either) as floats, freed by free(); NULL after a complaint if it is
 * absent or of another shape. */
float *weights_load(const fovea_context *ctx, weights *w, const char *name, int64_t rows, int64_t columns,
                    complaint to);

/* The type of an array of a GGUF file; false: there is none. */
bool weights_type(const weights *w, const char *name, gguf_type *type);

/* Such an array as it is in the file (gguf_map()). */
int weights_map(weights *w, const char *name, int64_t rows, int64_t columns, gguf_rows *blocks, complaint to);

/* Was every array of a GGUF file loaded? One that was not would have a part in the model's results. */
int weights_all_loaded(const weights *w, complaint to);

#endif
