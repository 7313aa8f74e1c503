/* The weights of a decoder, between load.c, which reads them, and session.c, which uses them. */
#ifndef GENERATE_MODEL_WEIGHTS_H
#define GENERATE_MODEL_WEIGHTS_H

#include "model.h"

typedef struct model_norm {
    float *weight, *bias; /* [width]; bias NULL: none */
} model_norm;

/* Maps of one input. Weights of different types cannot share a map without becoming float32. */
typedef struct model_maps {
    fovea_linear *map[3]; /* NULL behind the last */
    int parts[3];         /* of each map */
} model_maps;

typedef struct model_layer {
    model_norm attention, feed;
    model_maps qkv, out, up, down; /* up: with its gate, or GELU */
} model_layer;

struct model {
    const fovea_context *ctx;
    char *path;
    config config;
    model_types types;
    fovea_dtype words_type; /* of words */
    void *words;            /* [words][width], or NULL: blocks */
    gguf_rows blocks;
    float *places; /* [most_tokens][width], or NULL */
    model_layer *layers;
    model_norm last;
    model_maps head;
    fovea_rope *rope; /* or NULL */
    int64_t token_bytes;
    bool quantised;
};

static inline int64_t model_element(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

/* Are gate and up, of different types, in maps of their own? Then they are multiplied when they are run. */
static inline bool model_gate_apart(const model *m, const model_layer *l) {
    return m->config.names->gate != NULL && l->up.map[1] != NULL;
}

static inline int model_failed(const model *m, const char *what, complaint to) {
    return complain(to, m->path, "%s: %s", what, fovea_error_detail());
}

#endif
