/* How far a long computation is, and how long it will take: a bar on a terminal, now and then a line elsewhere; on
 * standard error, so that what is computed stays alone on standard output. */
#ifndef MODELS_PROGRESS_H
#define MODELS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *what;    /* is counted, as "heads" */
    int64_t all;         /* 0: not known */
    double begin, shown; /* seconds */
    bool terminal;
} progress;

void progress_begin(progress *p, const char *what, int64_t all);
void progress_show(progress *p, int64_t done);
void progress_end(progress *p); /* clears the bar */

#endif
