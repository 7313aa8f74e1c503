/* The attention weights of a model, whatever its family calls them and however many files it is in, one layer in memory
 * at a time.
 *
 *     model *m;
 *     if (model_open(paths, count, heads, kv_heads, &m, complaint) != 0) ...     heads 0: from its config.json
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
#include "rest.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_MOST_HEADS = 1 << 16 };

/* One thread at a time, except model_head(). */
typedef struct model model;

/* Opens the files (model_source.h says which paths there are) and finds the layers whose W^Q, W^K and W^V are all in
 * them. heads, kv_heads: if not 0, in place of what config.json says. *m is NULL after an error. */
int model_open(const char *const *paths, int count, int64_t heads, int64_t kv_heads, model **m, complaint to);
void model_close(model *m); /* NULL is allowed */

int64_t model_layers(const model *m);

const char *model_type(const model *m); /* as config.json says it, or "" */
int model_files(const model *m);

/* A sentence if files of the model are missing; else NULL. */
const char *model_partial(const model *m);

/* Arrays that look like attention and are in no layer. */
const rest *model_rest(const model *m);

typedef struct model_layer {
    const char *family; /* "BERT" */
    const char *stack;  /* what its arrays' names begin with, as "encoder.layer"; stack_length bytes of it */
    int stack_length;
    int64_t number; /* the one in the names; 0 if there is none: */
    bool numbered;
    bool cross;            /* cross-attention */
    bool gated;            /* behind the query channels of each head W^Q has as many of a gate, which are left out */
    int64_t used;          /* how many layers of the model these weights serve: 1, but more in ALBERT */
    int64_t model_layers;  /* of its stack, as config.json says; 0: it does not */
    const char *positions; /* config_sizes.positions */
    int64_t d_model, d_k, heads, kv_heads;
} model_layer;

/* Describes a layer from the headers of the files, without reading it. */
int model_describe(const model *m, int64_t index, model_layer *layer, complaint to);

/* Reads a layer, in place of the one before. */
int model_read(model *m, int64_t index, complaint to);

/* W_h^Q, W_h^K, W_h^V of the layer that was read last, side by side: columns[d_model][3 * d_k]. Any thread. */
void model_head(const model *m, int64_t head, double *columns);

#endif
