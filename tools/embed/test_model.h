/* A small model of BERT's form with random weights, in memory and as a file, for the tests of the encoder. */
#ifndef EMBED_TEST_MODEL_H
#define EMBED_TEST_MODEL_H

#include <stdint.h>

enum {
    WORDS = 13,
    WIDTH = 32,
    INNER = 96,
    LAYERS = 2,
    HEADS = 4,
    TOKENS = 9,
    ARRAYS = 5 + 16 * LAYERS,
    FLOATS_MOST = 24000,
};

typedef struct array {
    char name[80];
    int dims;
    int64_t shape[2];
    const float *values;
} array;

typedef struct model {
    array arrays[ARRAYS]; /* embeddings of words, places and types first */
    int count;
    float values[FLOATS_MOST];
    int64_t used;
} model;

/* From the test's seed; freed by free(). */
model *model_make(void);

/* Writes the model as a safetensors file; the array of that index (or -1) left out, of another dtype, or of another
 * shape. */
typedef enum damage { LEFT_OUT, OTHER_DTYPE, OTHER_SHAPE } damage;
void model_write(const model *m, const char *path, int index, damage how);

#endif
