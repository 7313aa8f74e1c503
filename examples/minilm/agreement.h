/* How well a float32 attention agrees with the float64 one. */
#ifndef AGREEMENT_H
#define AGREEMENT_H

#include "data.h"

/* Bounds that a result is compared with, made once from the data, as rounding errors differ by element:
 *   unit   [tokens][heads][head_dim]  2^-23 * sum over the keys of p |v|: what one rounding of every term may do
 *   limit  [tokens][heads]            units that a row may be off: 4 + 4 * (largest of its scale * sum |q||k|)
 * A score is only as good as the terms it is summed from, and an error of a score is a relative error of its weight.
 * The factor 4 leaves room for what such roundings add up to in practice, not for the worst they could (16, for
 * head_dim 32). */
typedef struct reference {
    double *unit, *limit;
    double drift; /* largest |out of the file - out computed again here|, in units of 2^-52 * sum p |v| */
} reference;

typedef struct agreement {
    double absolute; /* largest |o - o64| */
    double relative; /* square root of (sum (o - o64)^2 / sum o64^2) */
    double scaled;   /* largest |o - o64| / unit */
    double of_limit; /* largest scaled error over its row's limit: at most 1 is good */
} agreement;

/* Returns 0, or -1 if memory is short. Free with reference_free(). */
int reference_create(const minilm_data *data, reference *ref);
void reference_free(reference *ref);

/* Compares out [tokens][heads][head_dim]. A NaN in out gives NaN or infinity in every member: never a good result. */
agreement reference_compare(const reference *ref, const minilm_data *data, const float *out);

#endif
