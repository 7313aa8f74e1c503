/* The arrays of a model in safetensors, in however many files it is: one, several, all of a folder, or those that an
 * index names.
 *
 *     model_source *s;
 *     if (model_source_open(paths, count, &s, complaint) != 0) ...
 *     for (int64_t i = 0; i < model_source_count(s); i++)
 *         model_source_array(s, i)->tensor->name ...
 *     if (model_source_read_f32(s, model_source_array(s, i), floats, complaint) != 0) ...      one array at a time
 *     model_source_close(s);
 */
#ifndef MODELS_MODEL_SOURCE_H
#define MODELS_MODEL_SOURCE_H

#include "safetensors.h"

#include <stdbool.h>

typedef struct model_source model_source; /* one thread at a time */

typedef struct model_source_item {
    const safetensors_tensor *tensor;
    int file;
} model_source_item;

/* A path is a safetensors file, a folder or an index (*.index.json). Headers of all files are read and checked, nothing
 * else; no array may be in two of them. *s is NULL after an error. */
int model_source_open(const char *const *paths, int count, model_source **s, complaint to);
void model_source_close(model_source *s); /* NULL is allowed */

int64_t model_source_count(const model_source *s);
const model_source_item *model_source_array(const model_source *s, int64_t index);   /* sorted by name */
const model_source_item *model_source_find(const model_source *s, const char *name); /* or NULL */
int model_source_files(const model_source *s);
safetensors *model_source_file(const model_source *s, int file);
const char *model_source_path(const model_source *s, int file);

/* A sentence if files of the model are missing, as where one shard is given; NULL if not so. */
const char *model_source_partial(const model_source *s);

int model_source_read_f32(model_source *s, const model_source_item *item, float *values, complaint to);

#endif
