/* The weights of a decoder, between load.c, which reads them, and session.c, which uses them. */
#ifndef GENERATE_MODEL_WEIGHTS_H
#define GENERATE_MODEL_WEIGHTS_H

#include "model.h"

typedef struct model_norm {
    float *weight, *bias; /* [width]; bias NULL: none */
} model_norm;

typedef struct model_layer {
    model_norm attention, feed;
    fovea_linear *qkv[3];          /* all three parts are the first's, unless they are quantised differently */
    fovea_linear *out, *up, *down; /* up: with its gate, or GELU */
} model_layer;

struct model {
    const fovea_context *ctx;
    char *path;
    config config;
    fovea_dtype dtype, words_dtype;
    bool stored;
    fovea_arithmetic arithmetic;
    void *words; /* [words][width] of words_dtype */
    int64_t words_bytes;
    float *places; /* [most_tokens][width], or NULL */
    model_layer *layers;
    model_norm last;
    fovea_linear *head;
    fovea_rope *rope; /* or NULL */
    int64_t token_bytes;
};

static inline int64_t model_element(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

static inline int model_failed(const model *m, const char *what, complaint to) {
    return complain(to, m->path, "%s: %s", what, fovea_error_detail());
}

#endif
