/* stop.h. */
#include "stop.h"

#include <stdlib.h>
#include <string.h>

/* Where the string begins that ends first, behind the first bytes; the longest, if several end there. */
static size_t find(const stop_text *t, size_t from) {
    for (size_t end = from + 1; end <= t->count; end++) {
        size_t longest = 0;
        for (int i = 0; i < t->stop_count; i++) {
            const size_t length = strlen(t->stops[i]);
            if (length <= end && length > longest && memcmp(t->bytes + end - length, t->stops[i], length) == 0)
                longest = length;
        }
        if (longest > 0)
            return end - longest;
    }
    return t->count;
}

int stop_add(stop_text *t, const char *bytes, size_t count) {
    const size_t before = t->count;
    if (t->count + count > t->room) {
        const size_t room = 2 * (t->count + count) + 64;
        char *more = realloc(t->bytes, room);
        if (more == NULL)
            return -1;
        t->bytes = more;
        t->room = room;
    }
    if (count > 0)
        memcpy(t->bytes + t->count, bytes, count);
    t->count += count;
    const size_t end = find(t, before);
    const int stopped = end < t->count;
    t->count = end;
    return stopped;
}

size_t stop_ready(const stop_text *t) {
    size_t ready = t->count;
    for (int i = 0; i < t->stop_count; i++) {
        const size_t length = strlen(t->stops[i]);
        size_t tail = length - 1 < t->count ? length - 1 : t->count;
        while (tail > 0 && memcmp(t->bytes + t->count - tail, t->stops[i], tail) != 0)
            tail--;
        ready = t->count - tail < ready ? t->count - tail : ready;
    }
    return ready;
}

void stop_free(stop_text *t) {
    free(t->bytes);
    t->bytes = NULL;
    t->count = t->room = 0;
}
