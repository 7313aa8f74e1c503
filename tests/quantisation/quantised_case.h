/* Random quantised weights of every kind that maps take (fovea/quantisation.h). */
#ifndef FOVEA_TESTS_QUANTISED_CASE_H
#define FOVEA_TESTS_QUANTISED_CASE_H

#include "fovea/fovea.h"
#include "rng.h"

#include <stdbool.h>

typedef struct quantised_kind {
    const char *name;
    fovea_dtype dtype;
    int64_t group; /* of integers; 0: one scale for each output channel */
    fovea_dtype scale_dtype;
    fovea_packing packing;
    bool zeros, ordered;
    int64_t unit; /* in is a multiple of it */
} quantised_kind;

extern const quantised_kind quantised_kinds[];
extern const int quantised_kind_count;

/* matrix.quantisation points to quantisation, so a copy must set it again. */
typedef struct quantised_weight {
    fovea_matrix matrix;
    fovea_quantisation quantisation;
    void *data, *scales, *zeros;
    int32_t *group_of;
} quantised_weight;

/* in is a multiple of kind->unit, out of 8. */
void quantised_make(quantised_weight *w, const quantised_kind *kind, int64_t in, int64_t out, rng *r);
void quantised_free(quantised_weight *w);

#endif
