/* The factor by which reported cache sizes are corrected: found once, before the classes. */
#ifndef TUNE_SCALE_H
#define TUNE_SCALE_H

#include "trial.h"

/* cache_scale of the tuning file. */
typedef struct tune_scale {
    int64_t percent; /* 100: as the system reports */
    bool known;      /* false: too noisy, or too little time, to tell */
    tune_interval gain;
    double seen; /* the gain of the best of all in the search, which may not have been proved */
    int blocks;
    char shapes[FV_TUNING_SHAPES];
    tune_interval *slower; /* [classes] of those that lose by it, or may, how much as logarithms; the rest 0 */
} tune_scale;

/* Sizes of caches, in per cent of what the system reports, for which the defaults are tried. */
enum { TUNE_SCALES = 3 };
extern const int64_t tune_scales[TUNE_SCALES];

/* Looks for it within two fifths of a budget in seconds: the defaults for caches of other sizes against those of the
 * context, on the shapes of all classes. The best are proved on other shapes. */
void tune_find_scale(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double budget,
                     tune_watcher *watcher, void *arg, tune_scale *scale);

void tune_scale_free(tune_scale *scale);

/* Classes that lose by it, and for which nothing faster was found, get a row with the sizes that they had without
 * it. */
void tune_keep_sizes(fovea_context *ctx, const tune_scale *scale, const tune_class *classes, int count,
                     tune_result *results);

/* What the file says of it. */
fv_tuning_machine tune_machine(const fovea_context *ctx, const tune_scale *scale);

#endif
