/* Shared by the files of the program fovea-embed. */
#ifndef EMBED_H
#define EMBED_H

#include "encoder.h"
#include "folder_tokenizer.h"
#include "model_place.h"

enum { EMBED_COMPLAINT = 1024 };

/* As which a model may be loaded: what layers hand on, in the first three; weights. */
typedef enum embed_type { EMBED_F32, EMBED_BF16, EMBED_F16, EMBED_Q8_0 } embed_type;

typedef struct embed_model {
    model_place place;
    encoder_config config;
    tk_tokenizer *t;
    encoder *e;
    embed_type type, weights;
    fovea_context *context;
    fovea_context_facts info;
} embed_model;

/* Makes m->context and m->info, with at most as many threads, 0: all; false: there is no such tier here. */
bool embed_context(fovea_isa isa, int threads, embed_model *m);

/* These end the program where they fail. weights: EMBED_F32, as type; or EMBED_Q8_0. */
encoder *embed_load(const embed_model *m, embed_type type, embed_type weights);
void *embed_allocate(size_t count, size_t bytes);
void embed_die(const char *what);

/* The lines of a text that are nearest to a question. other: another element type to compare with; EMBED_F32: none. */
void embed_search(const embed_model *m, const char *path, const char *asked, int top, bool verbose, embed_type other);

#endif
