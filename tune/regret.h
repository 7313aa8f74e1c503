/* What fovea-tune-regret measures, and whether it holds its limits. */
#ifndef TUNE_REGRET_H
#define TUNE_REGRET_H

#include "measure.h"
#include "options.h"

enum { MOST_SHAPES = 200 };

/* Of a shape, logarithms of time / time of the default, with their 95 % intervals. */
typedef struct regret_row {
    tune_interval tuned, whole;
    tune_interval twice;        /* of the plan tuned again / of the tuned one */
    tune_interval best, regret; /* of the best; of the tuned / of the best */
    tune_interval left;         /* what tuning won less 90 % of what the handicap cost */
    int candidates, blocks;
    char fastest[320]; /* what the best has otherwise than the default */
} regret_row;

typedef struct regret_options {
    tune_options tune; /* first, as tune_options_read_with() wants it */
    double sweep;      /* seconds */
    int handicap;      /* 1: none */
    int shapes;
    bool again;
} regret_options;

/* Prints the limits and whether they hold over n shapes; the exit status. */
int regret_summarise(const regret_row *rows, int n, const regret_options *o);

#endif
