/* Which model an encoder is: what its config.json says, and what its arrays are called. */
#ifndef EMBED_ENCODER_CONFIG_H
#define EMBED_ENCODER_CONFIG_H

#include "complain.h"
#include "folder_tokenizer.h"

#include <fovea/fovea.h>

#include <stdbool.h>

/* The names of a family's arrays, behind any prefix ("bert."). Each map and norm has a weight and, unless no_bias, a
 * bias. */
typedef struct encoder_names {
    const char *words, *places, *type; /* embeddings; places, type NULL: none */
    const char *relative;              /* T5's relative position biases, of all layers; NULL: none */
    const char *embedded;              /* the norm behind them; NULL: none */
    const char *layer;                 /* "encoder.layer."; a number and a point follow */
    const char *qkv[3];                /* of a layer, as all that follow; only the first: fused, queries first */
    const char *out, *attention_norm, *inner, *outer, *outer_norm;
    const char *last_norm; /* behind the last layer; NULL: none */
    bool in_out;           /* maps lie [in, out], not [out, in] */
    bool norm_first;       /* norms come before attention and feed-forward, not behind; the first layer may lack one */
    bool gated;            /* inner has two parts, gate and what it gates */
    bool no_bias;          /* maps and norms may lack biases */
} encoder_names;

typedef struct encoder_config {
    const encoder_names *names;
    int64_t heads; /* 0: not known */
    fovea_activation activation;
    double epsilon;      /* of layer norms */
    int64_t first_place; /* the place of the first token among the position embeddings */
    bool causal;
    /* With rotary embeddings: their base in layers that see all tokens, which each every_th is from the first on, and
     * in the others, which see window tokens to both sides; global_base 0: none. */
    double global_base, local_base;
    int64_t every, window;
    int64_t places; /* where there are no position embeddings: the most tokens */
    folder_frame frame;
    fovea_pooling pooling; /* of a sentence's tokens */
    bool any_length;       /* vectors are not divided by their length */
    int64_t most_tokens;   /* of a sentence; 0: as many as there are position embeddings */
    fovea_dtype dtype; /* of words and maps, and of what layers hand on; FOVEA_DTYPE_F32 unless changed after reading */
    fovea_dtype weights; /* FOVEA_DTYPE_Q8_0: words and maps are rounded to it as they are read; 0: they are of dtype */
} encoder_config;

/* BERT with GELU, epsilon 1e-12; all-MiniLM-L6-v2 is one. */
encoder_config encoder_config_bert(int64_t heads);

/* Reads config.json in a folder; without that file the model is BERT, and heads is 0. A model that the encoder cannot
 * run is refused in a sentence that says what is missing. */
int encoder_config_read(const char *folder, encoder_config *config, complaint to);

/* The same, and what sentence-transformers' files in that folder say (modules.json, 1_Pooling/config.json,
 * sentence_bert_config.json). Without modules.json: the mean, divided by its length, of at most 256 tokens, as
 * all-MiniLM-L6-v2 has it. */
int encoder_config_read_sentences(const char *folder, encoder_config *config, complaint to);

#endif
