/* The data of fovea-minilm: the file that minilm/make_data.py makes and whose format its head describes. */
#ifndef MINILM_DATA_H
#define MINILM_DATA_H

#include <stddef.h>
#include <stdint.h>

typedef struct minilm_data {
    char title[64];
    int64_t layer, tokens, heads, head_dim;
    float *q, *k, *v; /* [tokens][heads][head_dim] each, as the model's projections write them */
    double *out;      /* the same shape: softmax(q k^T / sqrt(head_dim)) v of these, in float64 */
} minilm_data;

/* Reads a file. Returns 0, and *data owns its arrays until minilm_data_free(); or -1, and message[size] holds a
 * sentence that names the file and says what is wrong with it, and *data is all zero. Whatever the file says, no more
 * memory is asked for than a few times its length. */
int minilm_data_load(const char *path, minilm_data *data, char *message, size_t size);

/* Frees the arrays; one that is all zero is allowed. */
void minilm_data_free(minilm_data *data);

#endif
