/* The beginning of searches and proofs (trial.h). */
#include "trial.h"

const char *const tune_verdicts[] = {[VERDICT_unseen] = "not stored: not enough time",
                                     [VERDICT_default] = "default confirmed as best",
                                     [VERDICT_unconfirmed] = "default kept",
                                     [VERDICT_bound] = "default confirmed as best",
                                     [VERDICT_tuned] = "faster choice",
                                     [VERDICT_noisy] = "not stored: too noisy to tell",
                                     [VERDICT_large] = "not stored: larger than memory allows"};

static const tune_effort_numbers efforts[] = {
    [EFFORT_quick] = {1, 5, 9, 2}, [EFFORT_normal] = {2, 8, 15, 3}, [EFFORT_thorough] = {4, 16, 31, 3}};

int tune_proof_blocks(tune_effort effort) { return efforts[effort].proof; }

void tune_too_few(tune_search_state *s, const tune_measurement *m) {
    if (m->thrown > m->kept)
        s->noisy = true;
    else
        s->cut = true;
}

tune_search_state tune_search_begin(const fovea_context *ctx, tune_effort effort, tune_watcher *watcher, void *arg,
                                    tune_result *result) {
    return (tune_search_state){.ctx = ctx, .effort = efforts[effort], .watcher = watcher, .arg = arg, .result = result};
}
