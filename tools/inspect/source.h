/* The arrays of a model, in however many files it is: one, several, all of a folder, or those that an index names.
 *
 *     source *s;
 *     if (source_open(paths, count, &s, complaint) != 0) ...
 *     for (int64_t i = 0; i < source_count(s); i++)
 *         source_array(s, i)->tensor->name ...
 *     if (source_read_f32(s, source_array(s, i), floats, complaint) != 0) ...      one array at a time
 *     source_close(s);
 */
#ifndef INSPECT_SOURCE_H
#define INSPECT_SOURCE_H

#include "safetensors.h"

#include <stdbool.h>

typedef struct source source; /* one thread at a time */

typedef struct source_item {
    const safetensors_tensor *tensor;
    int file;
} source_item;

/* A path is a safetensors file, a folder or an index (*.index.json). Headers of all files are read and checked, nothing
 * else; no array may be in two of them. *s is NULL after an error. */
int source_open(const char *const *paths, int count, source **s, complaint to);
void source_close(source *s); /* NULL is allowed */

int64_t source_count(const source *s);
const source_item *source_array(const source *s, int64_t index); /* sorted by name */
int source_files(const source *s);
const char *source_path(const source *s, int file);

/* A sentence if files of the model are missing, as where one shard is given; NULL if not so. */
const char *source_partial(const source *s);

int source_read_f32(source *s, const source_item *item, float *values, complaint to);

#endif
