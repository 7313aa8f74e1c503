/* The attention weights of a sentence, between attention.c, which computes them, and what writes them:
 * attention_svg.c pictures, attention_text.c numbers. */
#ifndef INSPECT_ATTENTION_H
#define INSPECT_ATTENTION_H

#include "encoder.h"
#include "inspect.h"

/* The role of a token in summaries. */
typedef enum attention_role { ATTENTION_WORD, ATTENTION_CLS, ATTENTION_SEP } attention_role;

typedef struct attention_token {
    const char *text; /* as the vocabulary has it */
    attention_role role;
} attention_token;

typedef struct attention {
    const char *model, *sentence; /* as they are shown */
    char *title;                  /* of a picture */
    attention_token *token;       /* [tokens] */
    int64_t tokens, layers, heads;
    int64_t first_layer, last_layer, first_head, last_head; /* those asked for */
    bool causal;                                            /* a token sees itself and those before it */
    float *weights; /* of the layers and heads asked for, [layers][heads][tokens][tokens] */
    /* For all heads of the layers asked for, [layers][heads][tokens]: of each row of weights its entropy (natural
     * logarithm) and its largest; the weight that each token gets from all rows; [..][ENCODER_TOP]: what each row looks
     * at most, and these weights; the lse of each row. */
    float *entropy, *largest, *received, *lse, *top_weights;
    int64_t *top;
} attention;

static inline const float *attention_weights(const attention *a, int64_t layer, int64_t head) {
    const int64_t heads = a->last_head - a->first_head + 1;
    return a->weights + ((layer - a->first_layer) * heads + head - a->first_head) * a->tokens * a->tokens;
}

/* Where the tokens of a head are in what is of all heads. */
static inline int64_t attention_place(const attention *a, int64_t layer, int64_t head) {
    return ((layer - a->first_layer) * a->heads + head) * a->tokens;
}

/* How many heads were asked for. */
static inline int64_t attention_chosen(const attention *a) {
    return (a->last_layer - a->first_layer + 1) * (a->last_head - a->first_head + 1);
}

/* A head in numbers, each the mean over the tokens that look. */
typedef enum attention_figure {
    ATTENTION_ENTROPY,       /* of a row of weights, in bits */
    ATTENTION_LARGEST,       /* the largest weight of a row */
    ATTENTION_MASS_CLS,      /* weight on [CLS] (<s>); NaN where the sentence has none */
    ATTENTION_MASS_SEP,      /* on all [SEP] (</s>); NaN likewise */
    ATTENTION_MASS_FIRST,    /* on the first token, whatever it is */
    ATTENTION_MASS_SELF,     /* on the token itself */
    ATTENTION_MASS_PREVIOUS, /* on the token before; over the tokens that have one */
    ATTENTION_MASS_NEXT,     /* on the token after, likewise; NaN where tokens do not see it */
    ATTENTION_FIGURES
} attention_figure;

/* The token that gets most from all that look; of equal ones the first. */
int64_t attention_most(const attention *a, int64_t layer, int64_t head);

void attention_summarize(const attention *a, int64_t layer, int64_t head, double figures[ATTENTION_FIGURES]);

/* As outputs write (inspect.h); of is an attention. */
int attention_write_svg(const void *of, FILE *to);
int attention_write_csv(const void *of, FILE *to);  /* a line for each head and token that looks */
int attention_write_json(const void *of, FILE *to); /* weights and summaries */

void attention_write_table(const attention *a, FILE *to); /* summaries, a line for each head */

#endif
