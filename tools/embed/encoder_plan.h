/* A plan of an encoder (encoder.h), between encoder_plan.c, which makes it and deals a run's sentences, and encoder.c,
 * which runs.
 *
 * Sentences lie one behind another without padding, in shards: runs of sentences that one thread takes through all
 * layers, if there are enough of them for all threads to have about the same work; else there is one shard, in which
 * every linear map and attention takes all threads. Within a shard the shortest come first, so that those of equal
 * length, which go through attention together, are next to each other. */
#ifndef EMBED_ENCODER_PLAN_H
#define EMBED_ENCODER_PLAN_H

#include "encoder_weights.h"

#include <stdbool.h>

/* Attention of some sentences of one length. */
typedef struct attention_slot {
    fovea_attention_plan *plan[2]; /* of layers that see all tokens, and of the others; NULL: none yet */
    int64_t count;                 /* sentences they are for */
} attention_slot;

typedef struct encoder_shard {
    int64_t first, count;      /* sentences, in the plan's order */
    int64_t row, rows;         /* their tokens */
    attention_slot *attention; /* [tokens + 1], by length: kept from one run to the next */
    void *workspace;
    size_t workspace_size;
    float *wide;  /* [tokens][width]: sums of embeddings */
    int64_t *ids; /* [tokens] of a sentence */
    float *words; /* [tokens][width] of a sentence; NULL: the encoder has them as floats */
    /* For a run. */
    int status;
    char text[256]; /* what went wrong */
    double last, seconds[ENCODER_PARTS];
} encoder_shard;

struct encoder_plan {
    const encoder *e;
    int64_t batch, tokens, threads; /* at most */
    int64_t *order;                 /* [batch] sentences by shard and length */
    int64_t *sorted, *owner;        /* [batch] by length alone, and the shard of each, while order is made */
    int64_t *starts;                /* [tokens + 2] of lengths in sorted, likewise */
    int64_t *places;                /* [tokens] 0, 1, 2, ... */
    int64_t shards;                 /* of a run */
    encoder_shard *shard;           /* [threads] */
    /* In config.dtype. */
    void *hidden, *sum; /* [rows][width] */
    void *q, *k, *v;    /* of each shard [head][row][channel] */
    void *inner;        /* [rows][inner] */
};

/* Sentences of one length, next to each other. */
typedef struct encoder_group {
    int64_t first, count; /* in the plan's order */
    int64_t tokens;       /* of each */
    int64_t row;          /* of the first token, in the shard */
} encoder_group;

/* Deals the sentences of a run to shards. */
void encoder_plan_deal(encoder_plan *p, const int64_t *lens);

/* The group of a shard that begins where another ends, NULL: the first; every sentence alone, if single. count 0: there
 * is none. */
encoder_group encoder_group_after(const encoder_plan *p, const encoder_shard *s, const int64_t *lens,
                                  const encoder_group *before, bool single);

/* Makes the plans of attention that a shard's groups ask for, if they are not there yet. */
int encoder_plan_attention(encoder_plan *p, encoder_shard *s, const int64_t *lens, bool single, complaint to);

#endif
