/* A decoder on the library: loads weights, reads tokens, gives logits.
 *
 *     model *m;
 *     session *s;
 *     if (model_load(ctx, "folder", &(model_options){.dtype = FOVEA_DTYPE_BF16}, &m, complaint) != 0) ...
 *     if (session_create(m, 1, 2048, types, &s, complaint) != 0) ...        room for that many tokens of one sequence
 *     if (session_run(s, ids, count, complaint) != 0) ...                   a prompt, or the next token
 *     if (session_logits(s, count - 1, 1, logits, complaint) != 0) ...      of the last token that was run
 *
 * What goes into products and attention has one element type. Arrays of a GGUF file run as they are stored; what is
 * added up from layer to layer is float32. A token's logits have the same bits whether it comes alone, in a chunk,
 * with the whole prompt or with other sequences, on every tier, with every number of threads. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include "config.h"

enum { SESSION_CHUNK = 512 }; /* tokens that go through the layers together, at most */

typedef struct model model;     /* immutable once loaded: any number of sessions may use one */
typedef struct session session; /* one thread at a time */

/* Ranks that run one model together (ranks.h). Each loads some heads, and columns of the other maps; all give the same
 * tokens to their sessions, and get the same logits, whose bits are those of one rank. */
typedef struct model_ranks {
    int rank, ranks;
    void *arg;
    /* Columns [*first, *first + count) of a rank; returns count. */
    int64_t (*columns)(void *arg, int rank, int64_t columns, int64_t *first);
    /* Query heads [q[0], q[0] + q[1]) of a rank, and the key heads that they read; q[1] may be 0. */
    void (*heads)(void *arg, int rank, int64_t q_heads, int64_t kv_heads, int64_t q[2], int64_t kv[2]);
    /* Rows of each rank's columns [bounds[rank], bounds[rank + 1]), elements of that many bytes, into whole rows; or
     * what went wrong on any rank before. detail: why. */
    fovea_status (*gather)(void *arg, fovea_status before, int64_t rows, int64_t columns, int64_t element,
                           const int64_t *bounds, const void *own, void *whole);
    const char *(*detail)(void);
} model_ranks;

/* How a model is loaded. */
typedef struct model_options {
    fovea_dtype dtype; /* of what goes into products and attention */
    /* 0: arrays of a GGUF file as they are, others in dtype. Else all are converted to this type. */
    fovea_dtype weights;
    bool has_arithmetic;
    fovea_arithmetic arithmetic; /* of quantized weights, if has_arithmetic; else the library's default */
    void (*progress)(void *arg, int64_t done, int64_t all); /* or NULL: called as parts of the model are there */
    void *progress_arg;
    const model_ranks *ranks; /* or NULL: this process alone; outlives the model */
} model_options;

/* ctx must outlive the model, and the model its sessions. path: as for weights_open(). */
int model_load(const fovea_context *ctx, const char *path, const model_options *options, model **m, complaint to);
void model_free(model *m); /* NULL is allowed */

const config *model_config(const model *m);
int64_t model_token_bytes(const model *m); /* of weights that a token reads */
bool model_quantized(const model *m);      /* are weights kept in blocks? */
bool model_stored(const model *m);         /* do matrices run as a GGUF file stores them? */

/* As which keys and values are kept. */
typedef struct cache_types {
    fovea_dtype k, v;
} cache_types;

/* Room for that many tokens of each of 1 to SESSION_CHUNK sequences, which share one cache. */
int session_create(const model *m, int64_t sequences, int64_t tokens, cache_types types, session **s, complaint to);
void session_free(session *s); /* NULL is allowed */

/* The next tokens of a sequence, numbered from 0 on. */
typedef struct session_piece {
    int64_t sequence;
    const int32_t *ids;
    int64_t count;
} session_piece;

/* Runs pieces of different sequences together, of 1 to SESSION_CHUNK tokens in all, each behind those that its
 * sequence has. */
int session_run_pieces(session *s, const session_piece *pieces, int64_t count, complaint to);

/* The same of sequence 0 alone. */
int session_run(session *s, const int32_t *ids, int64_t count, complaint to);

/* Logits [rows][words] of tokens first ... of the last run, whose pieces follow each other. */
int session_logits(session *s, int64_t first, int64_t rows, float *logits, complaint to);

/* Makes a sequence one that begins like another; both share what they have in common. */
int session_fork(session *s, int64_t from, int64_t sequence, complaint to);

int64_t session_length(const session *s, int64_t sequence); /* tokens that were run */
int64_t session_cache_bytes(const session *s);              /* in use */
void session_clear(session *s, int64_t sequence);           /* forgets its tokens */

#endif
