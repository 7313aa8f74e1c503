/* rest.h. */
#include "rest.h"

#include "copy_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS_MOST = 500 };

/* Replaces numbers between points; in place. */
static void make_pattern(char *text) {
    char *to = text;
    for (char *at = text, *end; *at != '\0'; at = end) {
        end = at + strcspn(at, ".");
        char *digit = at;
        while (digit < end && isdigit((unsigned char)*digit))
            digit++;
        if (digit == end && end > at) {
            *to++ = '*';
        } else {
            memmove(to, at, (size_t)(end - at));
            to += end - at;
        }
        if (*end == '.')
            *to++ = *end++;
    }
    *to = '\0';
}

int rest_add(rest *r, const char *name, int length, const char *why) {
    char *first = copy_text(name, (size_t)length), *pattern = copy_text(name, (size_t)length);
    if (first == NULL || pattern == NULL) {
        free(first);
        free(pattern);
        return -1;
    }
    make_pattern(pattern);
    int at = 0;
    while (at < r->count && (r->item[at].why != why || strcmp(r->item[at].pattern, pattern) != 0))
        at++;
    if (at == r->count && at >= PATTERNS_MOST)
        at--;
    if (at < r->count) {
        r->item[at].count++;
        free(first);
        free(pattern);
        return 0;
    }
    rest_item *more = realloc(r->item, (size_t)(at + 1) * sizeof *more);
    if (more == NULL) {
        free(first);
        free(pattern);
        return -1;
    }
    r->item = more;
    r->item[r->count++] = (rest_item){first, pattern, why, 1};
    return 0;
}

void rest_free(rest *r) {
    for (int i = 0; i < r->count; i++) {
        free(r->item[i].first);
        free(r->item[i].pattern);
    }
    free(r->item);
}

const char *rest_names(const rest_item *item) { return item->count == 1 ? item->first : item->pattern; }
