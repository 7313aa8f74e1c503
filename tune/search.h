/* What the search for a class (search.c) and the proof of what it found (proof.c) share. */
#ifndef TUNE_SEARCH_H
#define TUNE_SEARCH_H

#include "tune.h"

typedef struct effort_numbers {
    int first;  /* blocks of the first round of a stage */
    int noise;  /* of the default against itself, at first */
    int proof;  /* for each shape */
    int shapes; /* of the proof */
} effort_numbers;

typedef struct search {
    tune_measurement m;
    tune_problem problem;
    const fovea_context *ctx;
    effort_numbers effort;
    double until;    /* of the search; the proof has its own time */
    bool noisy, cut; /* too few blocks to tell: as they had to be thrown away; as the time was over */
    tune_watcher *watcher;
    void *arg;
    tune_result *result;
} search;

/* A choice and the logarithm of its time / the default's; the default itself: 0. */
typedef struct standing {
    tune_choice choice;
    double ratio;
} standing;

enum { TUNE_FINALISTS = 3 };

/* There are too few blocks to tell: why? */
void tune_too_few(search *s, const tune_measurement *m);

/* The proof of some choices, until then; the result of the search gets the best of those that pass. */
void tune_prove(search *s, const tune_class *c, const standing *finalist, int count, double until);

#endif
