/* A decoder on the library: loads weights, reads tokens, gives logits.
 *
 *     model *m;
 *     session *s;
 *     if (model_load(ctx, "folder", (model_types){.dtype = FOVEA_DTYPE_BF16}, &m, complaint) != 0) ...
 *     if (session_create(m, 2048, FOVEA_DTYPE_BF16, &s, complaint) != 0) ...    room for so many tokens, keys and values of a type
 *     if (session_run(s, ids, count, complaint) != 0) ...                       a prompt, or the next token
 *     if (session_logits(s, count - 1, 1, logits, complaint) != 0) ...          of the last token that was run
 *
 * What goes into products and attention has one element type, and weights that are not quantised have it, too; what is added up
 * from layer to layer is float32. A token's logits have the same bits whether it comes alone, in a chunk or with the whole prompt, on every tier, with every number of
 * threads. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include "config.h"

enum { SESSION_CHUNK = 512 }; /* tokens that go through the layers together, at most */

typedef struct model model;     /* immutable once loaded: any number of sessions may use one */
typedef struct session session; /* one thread at a time */

/* As which a model is loaded. */
typedef struct model_types {
    fovea_dtype dtype; /* of what goes into products and attention */
    fovea_dtype
        weights; /* 0: blocks of a GGUF file as they are, others of dtype; else all are converted to this type */
    bool has_arithmetic;
    fovea_arithmetic arithmetic; /* of quantised weights, if has_arithmetic; else the library's default */
} model_types;

/* ctx must outlive the model, and the model its sessions. path: as for weights_open(). */
int model_load(const fovea_context *ctx, const char *path, model_types types, model **m, complaint to);
void model_free(model *m); /* NULL is allowed */

const config *model_config(const model *m);
int64_t model_token_bytes(const model *m); /* of weights that a token reads */
bool model_quantised(const model *m);      /* are weights kept in blocks? */

/* As which keys and values are kept. */
typedef struct cache_types {
    fovea_dtype k, v;
} cache_types;

int session_create(const model *m, int64_t tokens, cache_types types, session **s, complaint to);
void session_free(session *s); /* NULL is allowed */

/* Runs 1 <= count <= SESSION_CHUNK tokens behind those that were run. */
int session_run(session *s, const int32_t *ids, int64_t count, complaint to);

/* Logits [rows][words] of tokens first ... of the last run. */
int session_logits(session *s, int64_t first, int64_t rows, float *logits, complaint to);

int64_t session_length(const session *s);      /* tokens that were run */
int64_t session_cache_bytes(const session *s); /* in use */
void session_clear(session *s);                /* forgets all tokens */

#endif
