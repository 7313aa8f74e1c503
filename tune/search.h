/* The search for a class, and for all classes of a run. */
#ifndef TUNE_SEARCH_H
#define TUNE_SEARCH_H

#include "trial.h"

/* Searches for at most `seconds`. */
void tune_search(const fovea_context *ctx, const tune_class *c, tune_effort effort, double seconds,
                 tune_watcher *watcher, void *arg, tune_result *result);

/* Called before a search (result NULL), and once for each class when its result is final; seconds: of all its searches.
 */
typedef void tune_reporter(void *arg, int index, const tune_result *result, double seconds);

/* Searches the classes one after another, the quickest to measure first, within the budget; then, as long as there
 * is time, those again that were too noisy or in which something was seen but not proved. Ends early where the first
 * classes are all too noisy: returns how many, or 0. */
int tune_search_all(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double seconds,
                    tune_watcher *watcher, tune_reporter *reporter, void *arg, tune_result *results);

/* The verdicts of a run, summed up. */
typedef struct tune_outcome {
    int counts[VERDICTS];
    double gain; /* of the classes with a faster choice: geometric mean */
    bool store;
    int status; /* the program's, if nothing fails: TUNE_GOOD, TUNE_NOISY, TUNE_FAILED or TUNE_STOPPED */
} tune_outcome;
tune_outcome tune_outcome_of(const tune_result *results, int count);

/* The row that a result becomes. */
fv_tuning_row tune_row(const fovea_context *ctx, const tune_class *c, const tune_result *result);

#endif
