/* The queries of a block, scaled, in the forms that products take: each made when a source first asks for it. */
#ifndef FV_ATTENTION_QUERIES_H
#define FV_ATTENTION_QUERIES_H

#include "attention/visible/visible.h"
#include "fovea/fovea.h"
#include "kernels.h"

#include <stdbool.h>

typedef struct fv_sources fv_sources;

/* scale = q * c: q, +-2^e or 0, multiplies queries, c, from 1 to less than 2, what softmax reads (kernels.h). */
typedef struct fv_scale {
    float q, c;
} fv_scale;

/* Floats; words of two elements of 16 bits; integers (int8.h); rotated ones in groups (int4.h). */
typedef enum fv_query_form {
    FV_QUERIES_floats,
    FV_QUERIES_words,
    FV_QUERIES_integers,
    FV_QUERIES_groups,
    FV_QUERY_FORMS
} fv_query_form;

typedef struct fv_queries {
    const fv_sources *plan;
    const fovea_tensor *from;
    const fv_sequence *sequence;
    fv_row_place first; /* of the block */
    int64_t rows;
    void *form[FV_QUERY_FORMS]; /* scratch */
    unsigned made;              /* bits of forms */
    bool asks_norm;
    float norm;                  /* the largest sum of squares of a query; INFINITY: not asked for, or not known yet */
    fv_exponent_range exponents; /* of queries as words of bfloat16 */
} fv_queries;

/* A block begins; from to rows, and the scratch, are set. */
void fv_queries_begin(fv_queries *queries, bool asks_norm);

/* All of them in a form. Those of padding are zeros: they are not read. */
fv_rows fv_queries_in(fv_queries *queries, fv_query_form form);

/* Rows of them. */
static inline fv_rows fv_queries_part(const fv_rows *all, fv_query_form form, int64_t first, int64_t rows) {
    const int64_t word = form == FV_QUERIES_integers ? (int64_t)sizeof(fv_i8_word) : (int64_t)sizeof(float);
    return (fv_rows){(const char *)all->data + first * all->stride * word, rows, all->stride};
}

/* Takes back words that turned out not to be the scaled queries, and their norm. */
void fv_queries_drop_words(fv_queries *queries);

/* Makes the norm known, if it was asked for. */
void fv_queries_ensure_norm(fv_queries *queries);

/* Floats of scratch of one query in a form. */
int64_t fv_queries_floats(const fv_sources *plan, fv_query_form form);

#endif
