/* Attention computed from its formulas, one row at a time, for tests to compare the library with.
 *
 * reference_row() works in float64 with all scores of the row in memory: no tiles, no segments, no running maximum,
 * nothing of the library's code. With each value it gives the largest error that the arithmetic of kernels/kernels.h,
 * correctly done, may have: a derived bound, not a tolerance. reference.c derives it.
 *
 * literal_row() is the arithmetic of kernels/kernels.h written down word by word in float32: what the library's scalar
 * tier must give bit for bit.
 *
 * Neither looks at memory of a key that the row does not attend to, nor at the mask past a sequence's lengths. */
#ifndef FOVEA_TESTS_REFERENCE_H
#define FOVEA_TESTS_REFERENCE_H

#include "fovea/fovea.h"

/* One row: a query of one head of one sequence. Pointers are the caller's: out[value_dim], weights[kv_len]. */
typedef struct reference_result {
    int64_t attended; /* keys this row sees */
    int trusted;      /* 1: the bounds below hold and are small enough to mean something */
    double lse, lse_bound;
    double *out, *out_bound;
    double *weights, *weights_bound;
    double *magnitude; /* [value_dim]: sum of weight * |v|, the yardstick of the error of out */
} reference_result;

/* Allocates the arrays of a result for rows of that shape; exits when memory is short. Free with reference_free(). */
void reference_alloc(reference_result *result, const fovea_attention_desc *desc);
void reference_free(reference_result *result);

void reference_row(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h, int64_t i,
                   reference_result *result);

/* exp(x), and cap * tanh(factor * s) as kernels.h has it. */
typedef struct literal_kernels {
    float (*exp)(float x);
    float (*softcap)(float factor, float cap, float s);
} literal_kernels;

/* The row's out and weights to the last bit, given these and the lse that the library returned. Either output
 * may be NULL. */
void literal_row(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h, int64_t i,
                 const literal_kernels *kernels, float lse, float *out, float *weights);

/* Whether query i of head h of sequence b attends to key j. */
int reference_attends(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h,
                      int64_t i, int64_t j);

/* T5's bucket of a key that lies d before the query. */
int64_t reference_bucket(const fovea_attention_desc *desc, int64_t d);

/* The term that desc.relative adds to the score of a query at a key position with key j, from the table or slopes t:
 * exact, the product of ALIBI still to be rounded. */
double reference_relative(const fovea_attention_desc *desc, const fovea_tensor *t, int64_t b, int64_t h,
                          int64_t position, int64_t j);

/* Where element (b, h, t, c) of a tensor is, in elements; sizes of 1 repeat. */
int64_t tensor_index(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t, int64_t c);

/* That of a float32 tensor. */
float tensor_f32(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t, int64_t c);

#endif
