/* A decoder on the library: loads weights, reads tokens, gives logits.
 *
 *     model *m;
 *     session *s;
 *     if (model_load(ctx, "folder", types, &m, complaint) != 0) ...
 *     if (session_create(m, 2048, FOVEA_DTYPE_BF16, &s, complaint) != 0) ...    room for so many tokens, keys and values of a type
 *     if (session_run(s, ids, count, complaint) != 0) ...                       a prompt, or the next token
 *     if (session_logits(s, count - 1, 1, logits, complaint) != 0) ...          of the last token that was run
 *
 * What goes into products and attention has one element type, and so have weights that are not stored quantised; what is added up from layer to layer is float32. A
 * token's logits have the same bits whether it comes alone, in a chunk or with the whole prompt, on every tier, with every number of
 * threads. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include "config.h"

enum { SESSION_CHUNK = 512 }; /* tokens that go through the layers together, at most */

typedef struct model model;     /* immutable once loaded: any number of sessions may use one */
typedef struct session session; /* one thread at a time */

/* What a model is made of. */
typedef struct model_types {
    fovea_dtype dtype;           /* of products and attention; and of weights, unless they are stored otherwise: */
    bool stored;                 /* quantised matrices of a GGUF file are packed as they are */
    fovea_arithmetic arithmetic; /* of those */
} model_types;

/* ctx must outlive the model, and the model its sessions. path: as for weights_open(). */
int model_load(const fovea_context *ctx, const char *path, model_types types, model **m, complaint to);
void model_free(model *m); /* NULL is allowed */

const config *model_config(const model *m);
int64_t model_token_bytes(const model *m); /* of weights that a token reads */

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
