/* Attention problems that were computed, to be compared with others that mean the same. */
#ifndef FOVEA_TESTS_SOLUTION_H
#define FOVEA_TESTS_SOLUTION_H

#include "attention_case.h"

/* A problem, its memory and its results. */
typedef struct solution {
    attention_case c;
    inputs *in;
    outputs *out;
} solution;

/* Computes a problem; owns in from here on. */
solution solve(const fovea_context *ctx, attention_case c, inputs *in);
void forget(solution *s);

/* Inputs for c with the values of another problem: c's tensors may be laid out or masked differently and its heads
 * repeated, but otherwise they have the shapes of from's. */
inputs *same_values(const attention_case *c, const solution *from);

/* One check: equal rows of out, and of lse and weights where both have them. The layouts may differ. Returns the number
 * of rows that are neither 0 nor infinite: without any, the check proved nothing. */
int64_t check_equal(const char *what, const solution *x, const solution *y);

#endif
