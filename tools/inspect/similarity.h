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

/* A head in an order. */
typedef struct similarity_place {
    double key;
    int64_t head;
} similarity_place;

typedef struct similarity {
    const char *path; /* what the user gave: the first */
    model *file;
    int64_t layers, heads; /* heads: of all layers */
    model_layer *layer;    /* [layers] */
    int64_t *first;        /* [layers]: a layer's first head in figure */
    int *shape;            /* [layers]: its random heads */
    double (*figure)[FIGURES];
    similarity_place *sorted; /* [heads]: room for similarity_sort() */
    random_heads *random;
    int shapes;
    int64_t samples;
    bool one_stack;      /* the number alone tells a layer */
    int common;          /* of the names of all stacks: what they begin with, up to a point */
    int rank;            /* the order asked for, of similarity_orders; -1: none */
    int64_t top;         /* heads of a ranking; 0: not given */
    inspect_head chosen; /* only that one; -1: all */
} similarity;

/* ------------------------------------------------------------------------------------------- similarity_order.c -- */

/* An order of heads: by a figure, up or down. */
typedef struct similarity_order {
    int figure;        /* -1: by layer and head */
    bool falling;      /* the greatest first */
    const char *title; /* "most alike: Q and K by their mean principal angle" */
} similarity_order;

enum { SIMILARITY_ORDERS = 9, SIMILARITY_RANKINGS = 5 }; /* rankings: those that are shown unasked come first */
extern const similarity_order similarity_orders[SIMILARITY_ORDERS];

/* Fills s->sorted with the heads by an order, those without the figure left out; returns how many. Ties by layer and
 * head. */
int64_t similarity_sort(const similarity *s, const similarity_order *order);

/* The layer that a head, counted over all layers, is of. */
int64_t similarity_layer(const similarity *s, int64_t head);

/* The range of a figure, and how many heads are in each of its equal parts. */
typedef struct similarity_range {
    double low, high;    /* NaN: no head has the figure */
    int64_t least, most; /* the first head of each */
    int64_t without;     /* heads that have no value */
} similarity_range;

similarity_range similarity_find_range(const similarity *s, int figure);
void similarity_count(const similarity *s, int figure, const similarity_range *range, int parts, int64_t *count);

/* The name of a figure, as "cosine_qk"; and in words, as "cosine of Q and K". Static, until the next call. */
const char *similarity_column(int figure);
const char *similarity_words(int figure);
const figure_group *similarity_group(int figure);

/* -------------------------------------------------------------------------------------------- similarity_text.c -- */

enum { SIMILARITY_LABEL = 64 };
const char *similarity_label(const similarity *s, int64_t layer, char text[SIMILARITY_LABEL]);

/* A head's layer and number, as "5.11". */
const char *similarity_name(const similarity *s, int64_t head, char text[SIMILARITY_LABEL]);

/* A value as it is shown with that many digits after the point; never a zero with a sign. */
double similarity_tidy(double value, int digits);

/* Arrays that were left out, and why: a line each, with what begins it. */
void similarity_notes(const similarity *s, FILE *to, const char *begin);

void similarity_table(const similarity *s, FILE *to);   /* means of layers, rankings, histograms */
void similarity_ranking(const similarity *s, FILE *to); /* the order asked for */
void similarity_one(const similarity *s, FILE *to);     /* the chosen head */

/* ----------------------------------------------------------------------------------------- similarity_records.c -- */

/* As outputs write (inspect.h); of is a similarity. */
int similarity_csv(const void *of, FILE *to);
int similarity_json(const void *of, FILE *to);

/* --------------------------------------------------------------------------------------------- similarity_svg.c -- */

int similarity_svg(const void *of, FILE *to);

#endif
