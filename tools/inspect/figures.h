/* How alike the matrices W^Q, W^K and W^V of one head are: figures that no scaling of all weights changes.
 *
 *     figures_space *space;
 *     if (figures_space_create(d_model, d_k, &space) != 0) ...   for one thread; out of memory is all that can fail
 *     double *columns = figures_columns(space);                  fill it
 *     double figure[FIGURES];
 *     if (figures_compute(space, figure) != 0) ...               LAPACK did not converge
 *     figures_space_free(space);
 *
 * A figure that has no value (the cosine with a matrix of zeros) is NaN. */
#ifndef INSPECT_FIGURES_H
#define INSPECT_FIGURES_H

#include <stdint.h>

/* In groups; those of pairs in the order Q and K, Q and V, K and V. */
enum {
    FIGURE_COSINE,              /* <A, B> / (|A| |B|), the matrices taken as vectors of numbers */
    FIGURE_DISTANCE = 3,        /* |A - B| / sqrt(|A|^2 + |B|^2): 0 where equal, 1 where <A, B> = 0 */
    FIGURE_ANGLE = 6,           /* principal angles between the column spaces, in degrees: their mean, */
    FIGURE_LEAST_ANGLE = 9,     /* the smallest, */
    FIGURE_GREATEST_ANGLE = 12, /* and the largest */
    FIGURE_SYMMETRY = 15,       /* of B = W^Q W^K^T: |(B + B^T) / 2|^2 / |B|^2. 1: symmetric; 0: antisymmetric */
    FIGURE_RANK = 16,           /* its effective rank: exp(-sum p log p), p = singular values / their sum [1] */
    FIGURES = 17
};
/* [1] O. Roy, M. Vetterli: The effective rank: a measure of effective dimensionality. EUSIPCO 2007. */

enum { FIGURE_GROUPS = 7, FIGURES_MOST_CHANNELS = 4096 };

/* A group of figures: the first one, how many, and words for tables and pictures. */
typedef struct figure_group {
    int first, count;
    const char *column; /* for CSV, as "cosine"; with _qk, _qv, _kv where count is 3 */
    const char *title;
    int digits; /* after the point */
} figure_group;

extern const figure_group figure_groups[FIGURE_GROUPS];
extern const char *const figure_pairs[3]; /* "qk", "qv", "kv" */

/* Memory for heads of one shape. 1 <= d_k <= FIGURES_MOST_CHANNELS. */
typedef struct figures_space figures_space;

int figures_space_create(int64_t d_model, int64_t d_k, figures_space **space);
void figures_space_free(figures_space *space); /* NULL is allowed */

/* Where a head's numbers go: [d_model][3 * d_k], each row a row of W^Q, then of W^K, then of W^V. */
double *figures_columns(figures_space *space);

int figures_compute(figures_space *space, double figure[FIGURES]);

/* The figures of a head whose numbers are normally distributed, the index-th of its shape: always the same. */
int figures_random(figures_space *space, int64_t index, double figure[FIGURES]);

#endif
