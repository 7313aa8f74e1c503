/* Loading a decoder, between load.c, which goes through its arrays, and load_maps.c, which packs matrices. */
#ifndef GENERATE_LOAD_H
#define GENERATE_LOAD_H

#include "model_weights.h"

enum { LOAD_NAME = 256, LOAD_PARTS = MODEL_MAPS };

typedef struct loading {
    weights *w;
    model *m;
    complaint to;
} loading;

/* One matrix of a map: rows [first, first + out) of an array, or columns where matrices are [in, out]. */
typedef struct piece {
    const char *name;
    int64_t out, first, all;
    bool in_out;
} piece;

/* How a map is made. y_dtype 0: the model's. */
typedef struct map_kind {
    int64_t in;
    fovea_activation activation;
    fovea_dtype y_dtype;
} map_kind;

/* A matrix that a map is made of, or whose rows are read. */
typedef struct source {
    char *values; /* or NULL: in the pages of the file */
    float *bias;
    gguf_rows pages; /* row_bytes are those of values, too */
} source;

static inline int load_out_of_memory(const loading *l) { return complain(l->to, l->m->path, "out of memory"); }

void load_name(const char *format, int64_t layer, const char *suffix, char name[LOAD_NAME]);
bool load_has(const loading *l, const char *name);

/* A matrix by its array's name. */
int load_matrix(const loading *l, const piece *p, const char *name, int64_t in, fovea_matrix *matrix, source *from);
void load_release(source *from);

/* Loads and packs the pieces, with biases that the file has for them; the maps come behind those that are there. */
int load_map(const loading *l, const piece *pieces, int count, int64_t layer, const map_kind *kind, model_maps *maps);

/* A layer of the delta rule, but for its norm and what follows it. */
int load_delta(const loading *l, int64_t layer, model_layer *to);
float *load_vector(const loading *l, const char *format, int64_t layer, const char *suffix, int64_t count);
int load_norm(const loading *l, const char *format, int64_t layer, int64_t channels, model_norm *n);

/* Experts of a layer and their router. */
int load_experts(const loading *l, int64_t layer, model_layer *to);

/* Packs parts as one map, or as several, each of parts of one type that follow each other. No columns: no map. */
int load_pack(const loading *l, const fovea_linear_part *parts, int count, const char *name, const map_kind *kind,
              model_maps *maps);

#endif
