/* Attention as one writes it down first: three loops that hand a whole matrix of scores from one to the next, expf of
 * libm, and the compiler's own vectorization. Its loops run in the order in which memory lies and are those that the
 * compiler can make something of; no intrinsics, no blocking, and, as for the library, no leave to reorder sums
 * (-ffast-math). */
#include "bout.h"

#include <math.h>

/* scores[i][j] = scale * (q[i] . k[j]) */
static void compute_scores(const float *q, const float *k, float *scores, int64_t tokens, int64_t stride,
                           int64_t head_dim) {
    float scale = 1.0f / sqrtf((float)head_dim);
    for (int64_t i = 0; i < tokens; i++)
        for (int64_t j = 0; j < tokens; j++) {
            float dot = 0.0f;
            for (int64_t c = 0; c < head_dim; c++)
                dot += q[i * stride + c] * k[j * stride + c];
            scores[i * tokens + j] = scale * dot;
        }
}

/* Each row becomes exp(score - largest) / sum of these. */
static void softmax(float *scores, int64_t tokens) {
    for (int64_t i = 0; i < tokens; i++) {
        float *row = scores + i * tokens;
        float largest = row[0], sum = 0.0f;
        for (int64_t j = 1; j < tokens; j++)
            largest = row[j] > largest ? row[j] : largest;
        for (int64_t j = 0; j < tokens; j++) {
            row[j] = expf(row[j] - largest);
            sum += row[j];
        }
        for (int64_t j = 0; j < tokens; j++)
            row[j] /= sum;
    }
}

/* out[i] = sum of weights[i][j] * v[j] */
static void mix_values(const float *weights, const float *v, float *out, int64_t tokens, int64_t stride,
                       int64_t head_dim) {
    for (int64_t i = 0; i < tokens; i++) {
        float *restrict row = out + i * stride;
        for (int64_t c = 0; c < head_dim; c++)
            row[c] = 0.0f;
        for (int64_t j = 0; j < tokens; j++)
            for (int64_t c = 0; c < head_dim; c++)
                row[c] += weights[i * tokens + j] * v[j * stride + c];
    }
}

void plain_attention(const float *q, const float *k, const float *v, float *out, float *scores, int64_t tokens,
                     int64_t heads, int64_t head_dim) {
    int64_t stride = heads * head_dim;
    for (int64_t h = 0; h < heads; h++) {
        int64_t head = h * head_dim;
        compute_scores(q + head, k + head, scores, tokens, stride, head_dim);
        softmax(scores, tokens);
        mix_values(scores, v + head, out + head, tokens, stride, head_dim);
    }
}
