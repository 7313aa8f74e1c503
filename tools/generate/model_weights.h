/* The weights of a decoder, between load.c, which reads them, and session_run.c, which uses them. */
#ifndef GENERATE_MODEL_WEIGHTS_H
#define GENERATE_MODEL_WEIGHTS_H

#include "model.h"

typedef struct model_norm {
    float *weight, *bias; /* weight NULL: there is no such norm; bias NULL: none */
} model_norm;

enum { MODEL_MAPS = 4 };

/* Maps of one input. Weights of different types cannot share a map without becoming float32. */
typedef struct model_maps {
    fovea_linear *map[MODEL_MAPS]; /* NULL behind the last */
    int parts[MODEL_MAPS];         /* of each map */
} model_maps;

typedef struct model_layer {
    model_norm attention, feed, q, k, attention_after, feed_after;
    model_maps qkv, out, up, down; /* up: with its gate, or GELU */
    float *sinks;                  /* [heads], or NULL */
    model_maps delta_in;           /* of a layer of the delta rule */
    model_norm delta_norm;
    float *conv, *dt, *a_log; /* [channels][taps], [heads], [heads] */
    model_maps router;        /* and the gate of the shared expert, if there is one */
    fovea_experts *experts;   /* or NULL */
} model_layer;

/* Columns of a map that this process has; all of them unless there are ranks. */
typedef struct model_share {
    int64_t first, count, all;
    int64_t *bounds; /* [ranks + 1] */
} model_share;

typedef struct model_shares {
    model_share heads, width, inner, words; /* heads: their channels */
    int64_t q_first, q_heads, kv_first, kv_heads;
} model_shares;

struct model {
    const fovea_context *ctx;
    char *path;
    config config;
    model_options options;
    const char *words; /* [words][word_bytes] of words_type */
    fovea_dtype words_type;
    int64_t word_bytes;
    void *own_words;       /* or NULL: */
    gguf_rows words_pages; /* they are in the file */
    model_shares shares;
    float *places; /* [most_tokens][width], or NULL */
    model_layer *layers;
    model_norm last;
    model_maps head;
    fovea_rope *rope, *local_rope; /* or NULL */
    int64_t token_bytes;
    bool quantized, stored;
};

/* shares.c. Of a model whose config is known; -1: out of memory. */
int model_share_out(model *m);
void model_shares_free(model *m);

/* Makes rows that have this process's columns whole, if there are ranks. Called by all ranks, whatever happened before.
 * own: memory for those columns. */
fovea_status model_gather(const model *m, const model_share *share, fovea_dtype dtype, int64_t rows, void *whole,
                          void *own, fovea_status before);

static inline int64_t model_element(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

static inline bool model_is_blocks(fovea_dtype type) {
    return type != FOVEA_DTYPE_F32 && type != FOVEA_DTYPE_BF16 && type != FOVEA_DTYPE_F16;
}

/* Are gate and up in maps of their own? Then they are multiplied when they are run. */
static inline bool model_gate_apart(const model *m, const model_layer *l) {
    return m->config.names->gate != NULL && l->up.map[1] != NULL;
}

static inline int model_failed(const model *m, const char *what, complaint to) {
    return complain(to, m->path, "%s: %s", what, fovea_error_detail());
}

#endif
