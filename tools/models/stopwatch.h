/* Time for the measuring programs of this folder. */
#ifndef MODELS_STOPWATCH_H
#define MODELS_STOPWATCH_H

#include <time.h>

/* Seconds by a clock of <time.h>: CLOCK_MONOTONIC is time that passes, CLOCK_THREAD_CPUTIME_ID time that a CPU spent on
 * this thread, the same where nothing else runs. Needs _POSIX_C_SOURCE 199309L or later. */
static inline double stopwatch(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
