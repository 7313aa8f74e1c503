/* The attention weights of a model file, whatever its family calls them, one layer in memory at a time.
 *
 *     model *m;
 *     if (model_open(path, heads, kv_heads, &m, complaint) != 0) ...      heads 0: from config.json beside the file
 *     for (int64_t i = 0; i < model_layers(m); i++) {
 *         model_layer layer;
 *         if (model_describe(m, i, &layer, complaint) != 0 || model_read(m, i, complaint) != 0) ...
 *         for (int64_t h = 0; h < layer.heads; h++)
 *             model_head(m, h, columns);                                  any thread
 *     }
 *     model_close(m);
 */
#ifndef INSPECT_MODEL_H
#define INSPECT_MODEL_H

#include "complain.h"

#include <stdint.h>

enum { MODEL_MOST_HEADS = 1 << 16 };

/* One thread at a time, except model_head(). */
typedef struct model model;

/* Opens the file and finds the layers whose W^Q, W^K and W^V are all in it. kv_heads 0: from config.json or from the
 * sizes of the arrays, and else as many as heads. *m is NULL after an error. */
int model_open(const char *path, int64_t heads, int64_t kv_heads, model **m, complaint to);
void model_close(model *m); /* NULL is allowed */

int64_t model_layers(const model *m);

/* Layers that lack one of the three, as where a model is in several files. */
int64_t model_incomplete(const model *m);

typedef struct model_layer {
    const char *family; /* "BERT" */
    const char *stack;  /* what its arrays' names begin with, as "encoder.layer"; stack_length bytes of it */
    int stack_length;
    int64_t number; /* the one in the names */
    int64_t d_model, d_k, heads, kv_heads;
} model_layer;

/* What a layer is, from the file's header: without reading it. */
int model_describe(const model *m, int64_t index, model_layer *layer, complaint to);

/* Reads a layer, in place of the one before. */
int model_read(model *m, int64_t index, complaint to);

/* W_h^Q, W_h^K, W_h^V of the layer that was read last, side by side: columns[d_model][3 * d_k]. Any thread. */
void model_head(const model *m, int64_t head, double *columns);

#endif
