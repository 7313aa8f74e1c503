/* encoder_weights.h: the size and the end of weights. */
#include "encoder_weights.h"

#include <stdlib.h>

static void free_norm(encoder_norm *n) {
    free(n->weight);
    free(n->bias);
}

void encoder_free(encoder *e) {
    if (e == NULL)
        return;
    for (int64_t i = 0; e->layers != NULL && i < e->shape.layers; i++) {
        encoder_layer *l = &e->layers[i];
        fovea_linear_destroy(l->qkv);
        fovea_linear_destroy(l->out);
        fovea_linear_destroy(l->inner);
        fovea_linear_destroy(l->outer);
        free_norm(&l->attention);
        free_norm(&l->feed_forward);
    }
    free(e->layers);
    free(e->words);
    free(e->places);
    free(e->type);
    free(e->relative);
    for (int local = 0; local < 2; local++)
        fovea_rope_destroy(e->rope[local]);
    free_norm(&e->embedded);
    free_norm(&e->last);
    free(e->path);
    free(e);
}

encoder_shape encoder_sizes(const encoder *e) { return e->shape; }

int64_t encoder_bytes(const encoder *e) {
    const encoder_shape *s = &e->shape;
    size_t bytes = (size_t)s->words * encoder_row_bytes(e, s->width);
    if (e->places != NULL)
        bytes += (size_t)((s->most_tokens + e->config.first_place) * s->width) * sizeof *e->places;
    for (int64_t i = 0; i < s->layers; i++) {
        const encoder_layer *l = &e->layers[i];
        bytes += fovea_linear_weight_bytes(l->qkv) + fovea_linear_weight_bytes(l->out) +
                 fovea_linear_weight_bytes(l->inner) + fovea_linear_weight_bytes(l->outer);
    }
    return (int64_t)bytes;
}
