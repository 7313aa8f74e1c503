/* The candidates of a search. */
#ifndef TUNE_CANDIDATES_H
#define TUNE_CANDIDATES_H

#include "problem.h"

enum { TUNE_CANDIDATES = 128 };

/* What candidates differ in from the best so far, and its names. */
typedef enum tune_stage { TUNE_kernels, TUNE_sizes, TUNE_pairs, TUNE_threads, TUNE_STAGES } tune_stage;
extern const char *const tune_stages[TUNE_STAGES];

/* The candidates of a stage, around the best so far: those whose plans differ from each other and from base's. Kernels
 * are in the order of the model that the defaults come from, others begin with the best so far. */
int tune_list(tune_problem *problem, tune_stage stage, const tune_choice *best, const tune_plan *base,
              tune_choice list[TUNE_CANDIDATES]);

/* Do two plans of a problem differ in the size that shapes of a class may disagree on? Others come to the same on some
 * of them. */
bool tune_is_another_size(const tune_plan *a, const tune_plan *b);

#endif
