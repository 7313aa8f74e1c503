/* State shared by the search for a class and the proof of its result. */
#ifndef TUNE_TRIAL_H
#define TUNE_TRIAL_H

#include "classes.h"
#include "measure.h"

typedef enum tune_verdict {
    VERDICT_no_time, /* the time was over, or it was interrupted, before anything was known */
    VERDICT_default,
    VERDICT_unconfirmed, /* a candidate was faster in the search, but not in the proof */
    VERDICT_tuned,
    VERDICT_noisy,
    VERDICT_large, /* no memory for its operands */
    VERDICTS
} tune_verdict;
extern const char *const tune_verdicts[VERDICTS];

typedef struct tune_result {
    tune_verdict verdict;
    tune_choice choice;
    tune_interval gain; /* time of the default / time of the choice */
    double seen;        /* the gain of the best candidate in the search, where nothing was proved */
    int candidates, blocks;
    double seconds; /* of the default */
    char shapes[FV_TUNING_SHAPES];
} tune_result;

/* Called as it goes: what is measured, and the best ratio so far. */
typedef void tune_watcher(void *arg, const char *what, double best);

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
    tune_shape proofs[TUNE_PROOFS];
    int known;       /* of them */
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
tune_search_state tune_search_begin(const fovea_context *ctx, const tune_class *c, tune_effort effort,
                                    tune_watcher *watcher, void *arg, tune_result *result);

/* There are too few blocks to tell: why? */
void tune_too_few(tune_search_state *s, const tune_measurement *m);

/* Blocks that check takes of a shape, and a proof about: fewer where they tell, more where they do not. */
int tune_proof_blocks(tune_effort effort);

/* The proof of some choices on other shapes of the class, until then; those at the end are left out if there is no time
 * for all. The result of the search gets the best of those that pass. */
void tune_prove(tune_search_state *s, const tune_class *c, const tune_standing *finalist, int count, double until);

#endif
