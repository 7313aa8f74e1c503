/* What the files of the program fovea-embed share. */
#ifndef MINILM_EMBED_H
#define MINILM_EMBED_H

#include "encoder.h"
#include "model_place.h"
#include "tokenizer.h"

enum { EMBED_COMPLAINT = 1024 };

typedef struct embed_model {
    model_place place;
    encoder_config config;
    tokenizer *t;
    encoder *e;
    fovea_context *context;
    fovea_info info;
} embed_model;

/* Both end the program where they fail. */
encoder *embed_load(const embed_model *m, fovea_dtype dtype);
void *embed_allocate(size_t count, size_t bytes);
void embed_die(const char *what);

/* The lines of a text that are nearest to a question. beside: a fovea_dtype, or 0. */
void embed_search(const embed_model *m, const char *path, const char *asked, int top, bool verbose, int beside);

#endif
