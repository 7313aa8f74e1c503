/* The kind of decoder that a model is, its sizes, and the names of its arrays. */
#ifndef GENERATE_CONFIG_H
#define GENERATE_CONFIG_H

#include "weights.h"

#include <fovea/fovea.h>

enum { CONFIG_LAYERS_MOST = 1 << 12 };

/* Names of arrays; %lld stands for the layer. NULL: the family has none. */
typedef struct config_names {
    const char *words, *places, *last, *head; /* head: absent in files whose words are the head, too */
    const char *attention_norm, *feed_norm;
    const char *q_norm, *k_norm;              /* of each head, before its rotation */
    const char *attention_after, *feed_after; /* norms of what is added to the rows */
    const char *qkv[3];                       /* qkv[1] NULL: all three side by side in one */
    const char *out, *gate, *up, *down;
    const char *sinks;
    const char *delta_in[4];   /* of layers of the delta rule: q, k and v; output gates; beta; decays */
    const char *delta_in_both; /* older files have the first two in one, grouped as delta_grouped says */
    bool delta_grouped;        /* heads of values lie by their head of keys, as do rows of beta and decays, in one */
    const char *delta_out, *delta_norm, *delta_conv, *delta_dt, *delta_a;
    const char *router, *experts[3]; /* stacks of all experts: gate, up, down */
    const char *gate_up;             /* or gate and up in one, of each expert the gate first */
    const char *shared_gate;         /* gate, up and down are an expert of all rows, which this multiplies */
    bool in_out;                     /* matrices are [in, out], as GPT-2 keeps them */
} config_names;

typedef struct config {
    const config_names *names;
    bool gpt2; /* layer norms, learned places, biases and GELU; else RMS norms, rotary, a gate */
    bool gelu; /* of the gate, in place of SiLU */
    int64_t layers, width, inner, heads, kv_heads, head_dim, words, most_tokens;
    double eps;
    double scale;         /* of scores; 0: 1 / sqrt(head_dim) */
    double word_scale;    /* of embeddings */
    double final_softcap; /* of logits; 0: none */
    int64_t window;       /* keys before a query that local layers see */
    bool local[CONFIG_LAYERS_MOST];
    bool has_local, local_rotates;                       /* local layers; they have a rope of their own */
    fovea_rope_desc rope, local_rope;                    /* of all but GPT-2; divisors are the model's to read */
    bool recurrent[CONFIG_LAYERS_MOST];                  /* layers of the delta rule, in place of attention */
    int64_t place[CONFIG_LAYERS_MOST];                   /* of a layer among those of its kind */
    int64_t attention_layers;                            /* how many are not recurrent */
    int64_t taps, delta_heads, delta_k_heads, delta_dim; /* taps: of the convolution before it */
    bool yarn_unrounded;                                 /* YaRN's ramp begins and ends between pairs */
    fovea_experts_desc experts;                          /* in each layer, if there are any */
    fovea_router router;
} config;

/* From the settings of a GGUF file, or the config.json in the folder of safetensors files. */
int config_read(const weights *w, config *c, complaint to);

#endif
