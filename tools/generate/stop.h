/* The text of an answer, which ends before the first of some strings that is complete.
 *
 *     stop_text t = {.stops = strings, .stop_count = count};
 *     if (stop_add(&t, bytes, count) < 0) ...                  no memory; > 0: one has come, t.count ends before it
 *     fwrite(t.bytes + shown, 1, stop_ready(&t) - shown, ...)  what no string can take back
 *     stop_free(&t);
 * */
#ifndef GENERATE_STOP_H
#define GENERATE_STOP_H

#include <stddef.h>

typedef struct stop_text {
    const char *const *stops; /* not empty */
    int stop_count;
    char *bytes;
    size_t count, room;
} stop_text;

int stop_add(stop_text *t, const char *bytes, size_t count);
size_t
stop_ready(const stop_text *t); /* bytes from the first on, behind which the text may be the beginning of a string */
void stop_free(stop_text *t);

#endif
