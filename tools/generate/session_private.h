/* Sessions (model.h), between session.c, which makes them, and session_run.c, which runs tokens. */
#ifndef GENERATE_SESSION_PRIVATE_H
#define GENERATE_SESSION_PRIVATE_H

#include "model_weights.h"

struct session {
    const model *m;
    fovea_kv_cache *cache;
    fovea_state_cache *states;                            /* of recurrent layers, or NULL: */
    int64_t *state, *state_run;                           /* [sequences] of it; those of this run */
    float *mixed, *mixed_conv, *z, *beta, *decay, *delta; /* [SESSION_CHUNK][...] */
    int64_t state_bytes;
    int64_t sequences, most, last_count;      /* last_count: tokens of the last run */
    int64_t *sequence;                        /* [sequences] of the cache */
    fovea_attention_plan *one[2];             /* attention of one query of each sequence; of local layers */
    fovea_attention_plan *chunk[2];           /* of up to SESSION_CHUNK */
    float *rows;                              /* [SESSION_CHUNK][width] */
    float *branch;                            /* the same, of what is added in a step of its own; or NULL */
    void *normed, *q, *k, *v, *heads, *inner; /* [SESSION_CHUNK][...] of the model's type */
    float *gate, *up;                         /* [SESSION_CHUNK][own inner] if a layer has them apart, or NULL */
    float *scores, *shared;                   /* [SESSION_CHUNK][experts], or NULL; gates of the shared expert */
    void *own;                                /* columns that go to other ranks, or NULL */
    int64_t *positions;
    int64_t *in_run, *starts; /* [sequences] of the cache; where their tokens are, and the end */
    int64_t pieces, longest;  /* of this run */
    void *workspace;
    size_t workspace_size;
};

/* count rows of channels; heads of a row side by side. */
static inline fovea_tensor session_rows(void *data, fovea_dtype dtype, int64_t count, int64_t heads, int64_t channels) {
    return fovea_tensor_bthd(data, dtype, 1, count, heads, channels);
}

/* The columns of this process in count such rows, of one head. */
static inline fovea_tensor session_columns(void *data, fovea_dtype dtype, int64_t count, const model_share *share) {
    fovea_tensor t = fovea_tensor_bthd(data, dtype, 1, count, 1, share->all);
    t.data = (char *)data + share->first * model_element(dtype);
    t.shape[3] = t.stride[1] = share->count;
    return t;
}

/* session_run.c. weight and bias of a norm over rows of heads side by side; y = map(x), or y += map(x), of each map,
 * whose y follow each other. */
fovea_status session_normalize(const session *s, const model_norm *n, fovea_tensor x, fovea_tensor y);
fovea_status session_products(const session *s, const model_maps *maps, fovea_tensor x, const fovea_tensor *y,
                              bool add);

/* session_states.c. The cache of states and memory for layers of the delta rule, if the model has some; *workspace
 * becomes at least what they need. A layer: from normed rows to all channels in heads, before the last map. */
int session_states_make(session *s, size_t *workspace, complaint to);
void session_states_free(session *s);
fovea_status session_run_delta(const session *s, int64_t layer, int64_t count, fovea_tensor normed);

static inline int session_failed(const session *s, const char *what, complaint to) {
    return model_failed(s->m, what, to);
}

#endif
