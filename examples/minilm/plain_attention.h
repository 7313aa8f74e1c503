/* Attention as one writes it down first: what fovea-minilm compares with. */
#ifndef PLAIN_ATTENTION_H
#define PLAIN_ATTENTION_H

#include <stdint.h>

/* out = softmax(q k^T / sqrt(head_dim)) v for arrays [tokens][heads][head_dim]. scores is scratch,
 * tokens x tokens. */
void plain_attention(const float *q, const float *k, const float *v, float *out, float *scores, int64_t tokens,
                     int64_t heads, int64_t head_dim);

#endif
