/* Output of fovea-tune run. */
#ifndef TUNE_RUN_TEXT_H
#define TUNE_RUN_TEXT_H

#include "machine.h"
#include "search.h"

/* One line for each class. */
void run_text_class(const tune_class *c, const tune_result *r, double seconds);

/* That the machine is too busy, and what comes of it. */
void run_text_busy(const tune_steadiness *s, const char *then);

/* That the search ended early, as the first `classes` classes were all too noisy. */
void run_text_hopeless(int classes, double seconds);

/* The last line: what was found, what not, and where it is. */
void run_text_outcome(const tune_outcome *o, int count, const char *path);

#endif
