/* The candidates of a search. */
#ifndef TUNE_CANDIDATES_H
#define TUNE_CANDIDATES_H

#include "problem.h"

enum { TUNE_CANDIDATES = 128 };

/* Choices that differ from the best so far in one field, or in two sizes (changes: 1 or 2), and whose plans differ from
 * each other and from base's. The best itself is the first, unless it is base. */
int tune_list(tune_problem *problem, const tune_choice *best, int changes, const tune_plan *base,
              tune_choice list[TUNE_CANDIDATES]);

#endif
