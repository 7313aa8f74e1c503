/* Arrays that are not compared, for users to see: names of arrays by pattern, as
 * "model.layers.*.self_attn.q_a_proj.weight", and why. */
#ifndef INSPECT_REST_H
#define INSPECT_REST_H

#include <stdint.h>

typedef struct rest_item {
    char *first, *pattern; /* the first name, and all of them, numbers being "*" */
    const char *why;       /* static */
    int64_t count;
} rest_item;

typedef struct rest {
    rest_item *item;
    int count;
} rest;

/* length: of name. Patterns beyond some hundreds are counted with the last one. -1: out of memory. */
int rest_add(rest *r, const char *name, int length, const char *why);
void rest_free(rest *r);

/* The name if there is one, else the pattern. */
const char *rest_names(const rest_item *item);

#endif
