/* Random quantized weights of every kind that maps take (fovea/quantization.h). */
#ifndef FOVEA_TESTS_QUANTIZED_CASE_H
#define FOVEA_TESTS_QUANTIZED_CASE_H

#include "fovea/fovea.h"
#include "rng.h"

#include <stdbool.h>

typedef struct quantized_kind {
    const char *name;
    fovea_dtype dtype;
    int64_t group; /* of integers; 0: one scale for each output channel */
    fovea_dtype scale_dtype;
    fovea_packing packing;
    bool zeros, ordered;
    int64_t unit; /* in is a multiple of it */
} quantized_kind;

extern const quantized_kind quantized_kinds[];
extern const int quantized_kind_count;

/* matrix.quantization points to quantization, so a copy must set it again. */
typedef struct quantized_weight {
    fovea_matrix matrix;
    fovea_quantization quantization;
    void *data, *scales, *zeros;
    int32_t *group_of;
} quantized_weight;

/* in is a multiple of kind->unit, out of 8. */
void quantized_make(quantized_weight *w, const quantized_kind *kind, int64_t in, int64_t out, rng *r);
void quantized_free(quantized_weight *w);

#endif
