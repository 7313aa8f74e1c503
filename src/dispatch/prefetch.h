/* Memory that the products of one piece of work prefetch for the next (fv_prefetch.next). */
#ifndef FV_PREFETCH_H
#define FV_PREFETCH_H

#include "core/core.h"
#include "kernels.h"

#include <assert.h>

/* The range that is still to be prefetched. */
typedef struct fv_prefetch_range {
    const float *at, *end;
} fv_prefetch_range;

/* The next call prefetches floats of it. */
static inline void fv_prefetch_take(fv_prefetch_range *range, int64_t floats, fv_prefetch *prefetch) {
    assert(floats >= 0 && range->at <= range->end);
    if (range->at == range->end)
        return;
    prefetch->next = range->at;
    range->at += fv_min(floats, range->end - range->at);
    prefetch->next_end = range->at;
}

#endif
