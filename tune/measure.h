/* Measurements of candidates against the default, and what is known by them. */
#ifndef TUNE_MEASURE_H
#define TUNE_MEASURE_H

#include "problem.h"

enum { TUNE_BLOCKS = 512, TUNE_TOGETHER = 4, TUNE_RECENT = 64, TUNE_LEAST = 6 /* blocks that tell of a spread */ };

/* A candidate in a measurement: logarithms of time / time of the default, one of each block. */
typedef struct tune_candidate {
    tune_choice choice;
    tune_plan *plan;
    int blocks;
    double ratio[TUNE_BLOCKS];
    double seconds; /* the fastest sample */
} tune_candidate;

typedef struct tune_interval {
    double median, low, high; /* 95 % */
} tune_interval;

/* A measurement: candidates against the default. */
typedef struct tune_measurement {
    tune_problem *problem;
    tune_candidate base; /* its ratios are those of `control`: the noise */
    tune_plan *control;  /* the default once more */
    uint64_t random;
    int kept, thrown;           /* blocks */
    double pause;               /* seconds between blocks, where a quota throttles */
    double recent[TUNE_RECENT]; /* the faster time of the default in each of the last blocks, kept or not */
    int looked_at;              /* blocks since the beginning */
} tune_measurement;

/* How many executions make a sample, if one takes `seconds`. */
int tune_executions(double seconds);

bool tune_measurement_begin(tune_measurement *m, tune_problem *problem);
void tune_measurement_end(tune_measurement *m);

bool tune_candidate_make(tune_measurement *m, const tune_choice *choice, tune_candidate *candidate);
void tune_candidate_free(tune_candidate *candidate);

/* Adds blocks to each of the candidates, until `blocks` were kept, the time is up, or it was interrupted. false if too
 * many had to be thrown away. */
bool tune_measure(tune_measurement *m, tune_candidate **candidates, int count, int blocks, double until);

/* The median of a candidate's ratios. */
double tune_median(const tune_candidate *candidate);

/* Sorts those that were measured by their medians, the fastest first; the number of them. */
int tune_sort(tune_candidate **candidates, int count);

/* The standard error of the median of `blocks` blocks, by the spread of the default against itself. */
double tune_median_error(const tune_measurement *m, int blocks);

/* A candidate's median and its 95 % interval by standard errors: the default's against itself or its own, if that is
 * larger. Narrower than order statistics where blocks are few and one of them had bad luck. Fewer than TUNE_LEAST: no
 * end. */
tune_interval tune_candidate_interval(const tune_measurement *m, const tune_candidate *c);

/* A candidate's results on several shapes, all with equal weight. Starts as {0}. */
typedef struct tune_together {
    double sum, variance; /* of the shapes' medians */
    int shapes;
} tune_together;

/* Does a candidate come to the same as the default? Nothing is to be measured then. */
bool tune_is_default(const tune_measurement *m, const tune_candidate *candidate);

/* One that is the default counts as that. */
void tune_together_add(tune_together *together, const tune_measurement *m, const tune_candidate *candidate);

/* The mean over the shapes, and its standard error by the spread of the default against itself. */
tune_interval tune_together_ratio(const tune_together *together, double *error);

#endif
