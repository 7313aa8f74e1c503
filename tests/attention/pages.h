/* Keys and values of a problem, put into pages as a caller's own cache has them (args.pages). */
#ifndef FOVEA_TESTS_PAGES_H
#define FOVEA_TESTS_PAGES_H

#include "fovea/fovea.h"

#include <stdbool.h>
#include <stdint.h>

/* A copy of one side of a problem, float32, in a pool of pages: [pages][keys][heads][channels] if keys_first, as many
 * engines have it, else [pages][heads][keys][channels]. Page i of sequence b is table[b * stride + i]. What no key is
 * in is poison. The caller frees its data. */
fovea_tensor pages_of(const fovea_tensor *t, int64_t page_keys, int64_t pages, const int32_t *table, int64_t stride,
                      bool keys_first);

#endif
