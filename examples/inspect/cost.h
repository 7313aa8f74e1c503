/* The forms that fovea-inspect cost compares, between cost.c, which shows them, and cost_measure.c, which runs them. */
#ifndef INSPECT_COST_H
#define INSPECT_COST_H

#include "inspect.h"

typedef struct cost_form {
    const char *name, *what; /* as "2q", and what it computes */
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_fold fold;

    fovea_mha_desc desc;
    fovea_attention_desc attention; /* of desc */
    fovea_mha_costs cost;
    bool possible;         /* for this shape */
    char why[200];         /* why not */
    double seconds, ratio; /* medians: of the times, of the times beside form 1's; 0: not measured */
} cost_form;

enum { COST_FORMS = 9 };

/* Runs all possible forms on the same random numbers, taking turns. */
int cost_measure(const inspect_options *options, cost_form form[COST_FORMS], int *threads, complaint to);

#endif
