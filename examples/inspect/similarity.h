/* The figures of all heads of a model, between similarity.c, which computes them, and those who show them. */
#ifndef INSPECT_SIMILARITY_H
#define INSPECT_SIMILARITY_H

#include "figures.h"
#include "inspect.h"
#include "model.h"

/* Random heads of one shape. */
typedef struct random_heads {
    int64_t d_model, d_k;
    double (*figure)[FIGURES]; /* [samples] */
    double mean[FIGURES], deviation[FIGURES];
} random_heads;

typedef struct similarity {
    const char *path; /* what the user gave: the first */
    model *file;
    int64_t layers, heads; /* heads: of all layers */
    model_layer *layer;    /* [layers] */
    int64_t *first;        /* [layers]: a layer's first head in figure */
    int *shape;            /* [layers]: its random heads */
    double (*figure)[FIGURES];
    random_heads *random;
    int shapes;
    int64_t samples;
    bool one_stack; /* the number alone tells a layer */
    int common;     /* of the names of all stacks: what they begin with, up to a point */
} similarity;

/* similarity_text.c */
enum { SIMILARITY_LABEL = 40 };
const char *similarity_label(const similarity *s, int64_t layer, char text[SIMILARITY_LABEL]);

/* A value as it is shown with so many digits after the point; never a zero with a sign. */
double similarity_tidy(double value, int digits);

/* What was left out, and why: a line each, with what begins it. */
void similarity_notes(const similarity *s, FILE *to, const char *begin);

void similarity_table(const similarity *s, FILE *to);
void similarity_csv(const similarity *s, FILE *to);

/* similarity_svg.c */
void similarity_svg(const similarity *s, FILE *to);

#endif
