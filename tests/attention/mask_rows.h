/* Rows of outputs, as masks and special scores leave them. */
#ifndef FOVEA_TESTS_MASK_ROWS_H
#define FOVEA_TESTS_MASK_ROWS_H

#include "attention_case.h"

float element(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c);
void set_row(float *row, int64_t n, float value);

/* Is every output value a legal one: no -0, no NaN but the one? */
bool canonical(const outputs *out);

/* Is row (b, h, i) of all outputs that of a row without keys, one of NaN, or the same in both? */
bool row_is_empty(const attention_case *c, const outputs *out, int64_t b, int64_t h, int64_t i);
bool row_is_nan(const attention_case *c, const inputs *in, const outputs *out, int64_t b, int64_t h, int64_t i);
bool row_same(const attention_case *c, const outputs *x, const outputs *y, int64_t b, int64_t h, int64_t i);

/* Keys that the row sees. */
int64_t attended_keys(const attention_case *c, const inputs *in, int64_t b, int64_t h, int64_t i);

#endif
