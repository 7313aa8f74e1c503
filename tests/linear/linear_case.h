/* Linear maps for tests: a case says what is to be computed, a problem holds its memory.
 *
 *     linear_case c = linear_case_random(&r);
 *     linear_problem *p = linear_problem_make(&c, &r);
 *     linear_problem_run(p, ctx);                    counts a failed check if the library refuses
 *     linear_problem_literal(p);                     checks outputs with the arithmetic of kernels.h and with float64
 *
 * What a correct library does not read holds poison (NaN): gaps between rows of x and of weights, rows past a length.
 * Outputs hold a canary first, so gaps and forgotten elements show up. x, weights and outputs end at a forbidden page.
 */
#ifndef FOVEA_TESTS_LINEAR_CASE_H
#define FOVEA_TESTS_LINEAR_CASE_H

#include "fovea/fovea.h"
#include "guard.h"
#include "test.h"

enum { LINEAR_PARTS = 3 };

typedef enum linear_weight {
    WEIGHT_IN_OUT,
    WEIGHT_OUT_IN,
    WEIGHT_GAPS,
    WEIGHT_BOTH_STRIDED,
    WEIGHT_KINDS
} linear_weight;
typedef enum linear_rows { ROWS_BHTD, ROWS_BTHD, ROWS_GAPS, ROWS_KINDS } linear_rows;
typedef enum linear_residual { RESIDUAL_NONE, RESIDUAL_APART, RESIDUAL_IN_PLACE, RESIDUAL_KINDS } linear_residual;

typedef struct linear_case {
    int64_t batch, tokens, groups, channels; /* of x */
    int64_t parts, heads[LINEAR_PARTS], head_channels[LINEAR_PARTS];
    bool bias[LINEAR_PARTS];
    bool has_scale[LINEAR_PARTS];
    double scale[LINEAR_PARTS];
    linear_weight weight;
    linear_rows x_rows, y_rows;
    fovea_activation activation;
    linear_residual residual;
    bool lens;
} linear_case;

typedef struct linear_problem {
    linear_case c;
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_part parts[LINEAR_PARTS];
    fovea_tensor y[LINEAR_PARTS], residual[LINEAR_PARTS];
    int64_t *lens;
    guard *x_memory, *weight_memory[LINEAR_PARTS], *bias_memory[LINEAR_PARTS], *y_memory[LINEAR_PARTS];
    float *residual_memory[LINEAR_PARTS]; /* the values; in place they are copied to y */
} linear_problem;

/* One part, everything at its default. */
linear_case linear_case_plain(int64_t batch, int64_t tokens, int64_t in, int64_t out);

/* Any combination of everything, small. */
linear_case linear_case_random(rng *r);

linear_problem *linear_problem_make(const linear_case *c, rng *r);
void linear_problem_free(linear_problem *p);

/* The canary, and the residual where it is in place. */
void linear_problem_clear(linear_problem *p);

/* Packs, clears, executes in a workspace of exactly its size, destroys. */
bool linear_problem_run(linear_problem *p, const fovea_context *ctx);

/* Some elements of the outputs against the arithmetic of kernels.h by bits, and against float64; rows past lengths:
 * kept. */
void linear_problem_literal(const linear_problem *p, rng *r, int64_t samples);

/* One check: the outputs of both, gaps included, have the same bits. */
bool linear_problem_same(const linear_problem *got, const float *const want[LINEAR_PARTS], const char *format, ...)
    TEST_PRINTF(3, 4);

/* Floats from the first to the last element. */
int64_t tensor_floats(const fovea_tensor *t);

/* A line that says all about it. Returns text. */
const char *linear_case_text(const linear_case *c, char *text, size_t size);

#endif
