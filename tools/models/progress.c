/* progress.h. */
#include "progress.h"

#include "stopwatch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void progress_begin(progress *p, const char *what, int64_t all) {
    const double now = stopwatch(CLOCK_MONOTONIC);
    *p = (progress){.what = what, .all = all, .begin = now, .shown = now, .terminal = isatty(STDERR_FILENO) == 1};
}

void progress_show(progress *p, int64_t done) {
    enum { WIDTH = 30 };
    const double between = p->terminal ? 0.1 : 10.0; /* seconds from line to line */
    const double now = stopwatch(CLOCK_MONOTONIC), spent = now - p->begin;
    if (now - p->shown < between || done < 1)
        return;
    p->shown = now;
    const char *const begin = p->terminal ? "\r\033[K" : "", *const end = p->terminal ? "" : "\n";
    if (p->all < 1)
        fprintf(stderr, "%s%lld %s%s", begin, (long long)done, p->what, end);
    else {
        const double left = spent / (double)done * (double)(p->all > done ? p->all - done : 0);
        char bar[WIDTH + 1] = "";
        memset(bar, '.', WIDTH);
        memset(bar, '#', (size_t)(WIDTH * (done < p->all ? done : p->all) / p->all));
        if (p->terminal)
            fprintf(stderr, "%s[%s] ", begin, bar);
        fprintf(stderr, "%lld of %lld %s, %d:%02d left%s", (long long)done, (long long)p->all, p->what,
                (int)(left / 60), (int)left % 60, end);
    }
    fflush(stderr);
}

void progress_end(progress *p) {
    if (p->terminal)
        fputs("\r\033[K", stderr);
}
