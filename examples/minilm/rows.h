/* What an encoder does with rows of floats besides linear maps and attention. Sums are taken in a fixed order, so that
 * the bits are the same everywhere (compiled with -ffp-contract=off). */
#ifndef MINILM_ROWS_H
#define MINILM_ROWS_H

#include <stdint.h>

/* Layer norm of each row of x[rows][width], in place: (x - mean) / sqrt(variance + epsilon) * weight + bias. */
void rows_norm(float *x, int64_t rows, int64_t width, const float *weight, const float *bias, float epsilon);

/* to[width] = the mean of the rows, divided by its length; zeros where that is zero. */
void rows_mean_direction(const float *x, int64_t rows, int64_t width, float *to);

/* The dot product of two rows. */
float rows_dot(const float *a, const float *b, int64_t width);

#endif
