/* What kind of decoder a model is, its sizes, and the names of its arrays. */
#ifndef GENERATE_CONFIG_H
#define GENERATE_CONFIG_H

#include "weights.h"

#include <fovea/fovea.h>

/* Names of arrays; %lld stands for the layer. NULL: the family has none. */
typedef struct config_names {
    const char *words, *places, *last, *head; /* head: absent in files whose words are the head, too */
    const char *attention_norm, *feed_norm;
    const char *qkv[3]; /* qkv[1] NULL: all three side by side in one */
    const char *out, *gate, *up, *down;
    bool in_out; /* matrices are [in, out], as GPT-2 keeps them */
} config_names;

typedef struct config {
    const config_names *names;
    bool gpt2; /* layer norms, learned places, biases and GELU; else LLaMA: RMS norms, rotary, SwiGLU */
    int64_t layers, width, inner, heads, kv_heads, head_dim, words, most_tokens;
    double eps;
    fovea_rope_desc rope; /* of LLaMA; divisors are the model's to read */
} config;

/* From the settings of a GGUF file, or the config.json beside safetensors. */
int config_read(const weights *w, config *c, complaint to);

#endif
