/* The proof of what a search found, on other shapes of the class. */
#ifndef TUNE_PROOF_H
#define TUNE_PROOF_H

#include "trial.h"

/* The proof of some choices, until then; those at the end are left out if there is no time for all. The result of the
 * search gets the best of those that pass. */
void tune_prove(tune_search_state *s, const tune_class *c, const tune_standing *finalist, int count, double until);

#endif
