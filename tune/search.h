/* What the search for a class (search.c) and the proof of what it found (proof.c) share. */
#ifndef TUNE_SEARCH_H
#define TUNE_SEARCH_H

#include "tune.h"

typedef struct tune_effort_numbers {
    int first;  /* blocks of the first round of a stage */
    int noise;  /* of the default against itself, at first */
    int proof;  /* of three looks at a shape of the proof, and of a check */
    int shapes; /* of the proof */
} tune_effort_numbers;

typedef struct tune_search_state {
    tune_measurement m;
    tune_problem problem;
    const fovea_context *ctx;
    tune_effort_numbers effort;
    bool noisy, cut; /* too few blocks to tell: as they had to be thrown away; as the time was over */
    tune_watcher *watcher;
    void *arg;
    tune_result *result;
} tune_search_state;

/* A choice and the logarithm of its time / the default's; the default itself: 0. */
typedef struct tune_standing {
    tune_choice choice;
    double ratio;
} tune_standing;

enum { TUNE_FINALISTS = 3 };

/* The state of a search that has measured nothing. */
tune_search_state tune_search_begin(const fovea_context *ctx, tune_effort effort, tune_watcher *watcher, void *arg,
                                    tune_result *result);

/* There are too few blocks to tell: why? */
void tune_too_few(tune_search_state *s, const tune_measurement *m);

/* The proof of some choices, until then; those at the end are left out if there is no time for all. The result of the
 * search gets the best of those that pass. */
void tune_prove(tune_search_state *s, const tune_class *c, const tune_standing *finalist, int count, double until);

#endif
