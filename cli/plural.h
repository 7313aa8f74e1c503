/* Endings of counted nouns:  printf("%d layer%s, %d quer%s", layers, plural(layers), queries, plural_y(queries)) */
#ifndef CLI_PLURAL_H
#define CLI_PLURAL_H

#include <stdint.h>

static inline const char *plural(int64_t count) { return count == 1 ? "" : "s"; }
static inline const char *plural_es(int64_t count) { return count == 1 ? "" : "es"; }
static inline const char *plural_y(int64_t count) { return count == 1 ? "y" : "ies"; }

#endif
