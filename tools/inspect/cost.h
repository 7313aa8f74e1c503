/* The forms that fovea-inspect cost compares, between cost.c, which shows them, cost_forms.c, which asks the library
 * about them, and cost_measure.c, which runs them. */
#ifndef INSPECT_COST_H
#define INSPECT_COST_H

#include "inspect.h"

enum {
    COST_FORMS = 9,
    COST_BIASES = 3,
    COST_MANY = 1 << 24 /* queries or keys: as many as there may be */
};

typedef struct cost_form {
    const char *name, *what; /* the number of fovea_mha_form and a letter, as "1q", and what it computes */
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_fold fold;

    fovea_mha_desc desc;
    fovea_attention_desc attention; /* of desc */
    fovea_mha_costs cost;
    bool possible;           /* for this shape */
    char why[200];           /* why not */
    bool lacks[COST_BIASES]; /* biases that it cannot hold */
    char why_lacks[200];
    double seconds, ratio; /* medians: of the times, of the times divided by form 0's; 0: not measured */
} cost_form;

extern const cost_form cost_all_forms[COST_FORMS];
extern const char *const cost_bias_names[COST_BIASES]; /* as fovea_mha_weights has them */

/* The costs of a form for a layer described as form 0, or why this shape has none. */
void cost_evaluate(cost_form *f, const fovea_mha_desc *layer);

double cost_flops(const fovea_mha_costs *c);

/* The numbers of queries with which a form takes fewer flops than form 0: from 1 on, up to COST_MANY, or 0 to 0:
 * none. */
typedef struct cost_range {
    int64_t from, to;
} cost_range;

cost_range cost_cheaper(const cost_form *f, const fovea_mha_desc *layer, int64_t kv_len);

/* Finds out which biases each form cannot hold. */
int cost_probe_biases(cost_form form[COST_FORMS], complaint to);

/* Runs all possible forms on the same random numbers, taking turns. */
int cost_measure(const inspect_options *options, cost_form form[COST_FORMS], int *threads, complaint to);

#endif
