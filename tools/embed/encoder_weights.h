/* The weights of an encoder (encoder.h), between encoder_load.c, which reads them, and encoder.c, which uses them. */
#ifndef EMBED_ENCODER_WEIGHTS_H
#define EMBED_ENCODER_WEIGHTS_H

#include "encoder.h"

#include <stdbool.h>

typedef struct encoder_norm {
    float *weight, *bias; /* [width]; weight NULL: there is no such norm */
} encoder_norm;

typedef struct encoder_layer {
    fovea_linear *qkv, *out, *inner, *outer;
    encoder_norm attention, feed_forward; /* before or behind them, by config.names->norm_first */
} encoder_layer;

struct encoder {
    char *path;
    encoder_shape shape;
    encoder_config config;
    const fovea_context *ctx;
    void *words;                 /* [words] rows of encoder_row_bytes() */
    float *places, *type;        /* [first_place + most_tokens][width], [width]; NULL: none */
    float *relative;             /* [heads][ENCODER_BUCKETS], or NULL */
    fovea_rope *rope[2];         /* of layers that see all tokens, and of the others; NULL: none */
    encoder_norm embedded, last; /* weight NULL: there is none */
    encoder_layer *layers;
};

enum { ENCODER_BUCKETS = 32, ENCODER_DISTANCE = 128 }; /* of relative position biases, as MPNet has them */

/* Does a layer see a window alone? */
static inline bool encoder_is_local(const encoder *e, int64_t layer) {
    return e->config.window > 0 && layer % e->config.every != 0;
}

/* Bytes of an element of config.dtype. */
static inline size_t encoder_element(const encoder *e) {
    return e->config.dtype == FOVEA_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Bytes of a row of words or of a map. */
static inline size_t encoder_row_bytes(const encoder *e, int64_t channels) {
    size_t bytes = 0, scales;
    if (e->config.weights == 0)
        bytes = (size_t)channels * encoder_element(e);
    else if (fovea_quantize_size(e->config.weights, channels, 1, NULL, &bytes, &scales) != FOVEA_OK)
        bytes = 0; /* refused when rows are rounded */
    return bytes;
}

static inline int encoder_out_of_memory(const encoder *e, complaint to) {
    return complain(to, e->path, "out of memory");
}

static inline int encoder_failed(const encoder *e, const char *what, complaint to) {
    return complain(to, e->path, "%s: %s", what, fovea_error_detail());
}

#endif
