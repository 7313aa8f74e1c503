/* A sentence encoder on the library, of the form of BERT or of GPT-2: token ids in, one vector of length 1 for each
 * sentence out.
 *
 *     encoder *e;
 *     if (encoder_load(ctx, "model.safetensors", 12, FOVEA_DTYPE_F32, &e, complaint) != 0) ... once; packs
 *     encoder_plan *p;
 *     if (encoder_plan_create(e, batch, tokens, &p, complaint) != 0) ...               for a shape; cheap
 *     if (encoder_run(p, ids, lens, out, NULL, NULL, complaint) != 0) ...
 *
 * What it computes: embeddings of words, places and token type 0, then layer norm; for each layer multi-head
 * self-attention, then layer norm of the sum with its input, a feed-forward network of two linear maps with GELU
 * between, then layer norm of the sum; at the end the mean over a sentence's tokens, divided by its length, or what
 * else config.json and 1_Pooling say. Other models (encoder_config.h) have the norms before attention and feed-forward,
 * another activation, or causal attention.
 *
 * In bfloat16 or float16 (encoder_config.dtype) words, maps and all that layers hand on are of that type; norms, biases
 * and the sums of embeddings and of pooling stay in float32. With encoder_config.weights FOVEA_DTYPE_Q8_0 words and
 * maps are integers of 8 bits with a scale for each 32; products take their inputs in 16 bits (docs/types.md: q16).
 *
 * The bits of a sentence's vector depend on its ids alone: not on tier, threads, batch or padding. Nothing between ids
 * and vectors is computed but by the library, whose promise that is. */
#ifndef EMBED_ENCODER_H
#define EMBED_ENCODER_H

#include "encoder_config.h"

/* Sizes of a model, as its arrays have them. */
typedef struct encoder_shape {
    int64_t words, width, inner, layers, heads;
    int64_t most_tokens; /* of a sentence */
} encoder_shape;

/* The weights. Immutable: any number of threads may use one. */
typedef struct encoder encoder;

/* Reads a model: how many layers there are, and all sizes, are what the file says, and must fit each other. ctx must
 * outlive *e, which is NULL after an error. encoder_load: as encoder_config_bert() says, in a type of floats, or with
 * such weights. */
int encoder_load_as(const fovea_context *ctx, const char *path, const encoder_config *config, encoder **e,
                    complaint to);
int encoder_load(const fovea_context *ctx, const char *path, int64_t heads, fovea_dtype dtype, encoder **e,
                 complaint to);
void encoder_free(encoder *e); /* NULL is allowed */
encoder_shape encoder_sizes(const encoder *e);
int64_t encoder_bytes(const encoder *e); /* of words, positions and maps in memory */

/* An encoder for batches of sentences of one length at most, with all memory that a run needs: one run at a time. */
typedef struct encoder_plan encoder_plan;

int encoder_plan_create(const encoder *e, int64_t batch, int64_t tokens, encoder_plan **plan, complaint to);
void encoder_plan_free(encoder_plan *plan); /* NULL is allowed */

/* Seconds by part; a run adds its own. */
typedef enum encoder_part {
    ENCODER_EMBEDDINGS,
    ENCODER_ATTENTION,    /* projections, attention and output projection */
    ENCODER_FEED_FORWARD, /* both linear maps, GELU and the sum */
    ENCODER_NORM,         /* layer norm, and the sum with attention's input */
    ENCODER_POOLING,
    ENCODER_PARTS
} encoder_part;

/* Weights of some layers' heads. */
typedef struct encoder_look {
    int64_t first_layer, layers, first_head, heads;
    float *weights; /* [layers][batch][heads][tokens][tokens], of these layers and heads alone */
    /* Optional, of all heads, [layers][batch][all heads][tokens]: of each row of weights its entropy (natural
     * logarithm) and its largest; the weight that each token gets from all rows, which needs the lse of each row;
     * [..][ENCODER_TOP]: the tokens of the largest weights of each row, in descending order, -1 where there are no
     * more, and these weights. */
    float *entropy, *largest, *received, *lse;
    int64_t *top; /* with top_weights */
    float *top_weights;
} encoder_look;
enum { ENCODER_TOP = 3 };

/* ids[batch][tokens], of sentence b the first lens[b] (1 .. tokens) are read; out[batch][width]. Optional: seconds
 * [ENCODER_PARTS], and what to look at. */
int encoder_run(encoder_plan *plan, const int32_t *ids, const int64_t *lens, float *out, double *seconds,
                const encoder_look *look, complaint to);

#endif
