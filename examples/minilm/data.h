/* The data of fovea-minilm: the safetensors file that make_data.py makes. */
#ifndef MINILM_DATA_H
#define MINILM_DATA_H

#include "complain.h"

#include <stdint.h>

typedef struct minilm_data {
    int64_t tokens, heads, head_dim;
    float *q, *k, *v; /* [tokens][heads][head_dim] each, as the model's projections write them */
    double *out;      /* the same shape: softmax(q k^T / sqrt(head_dim)) v of these, in float64 */
} minilm_data;

/* Returns 0, and *data owns its arrays until minilm_data_free(); or -1 with a sentence, and *data is all zero. */
int minilm_data_load(const char *path, minilm_data *data, complaint to);

/* Frees the arrays; one that is all zero is allowed. */
void minilm_data_free(minilm_data *data);

#endif
