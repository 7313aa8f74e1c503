/* Memory that the gemms of one piece of work bring near for the next (fv_merge.next). */
#ifndef FV_NEAR_H
#define FV_NEAR_H

#include "core/core.h"
#include "kernels.h"

#include <assert.h>

typedef struct fv_near {
    const float *at, *end; /* what is not near yet */
} fv_near;

/* The next call brings floats of it near. */
static inline void fv_near_take(fv_near *near, int64_t floats, fv_merge *merge) {
    assert(floats >= 0 && near->at <= near->end);
    if (near->at == near->end)
        return;
    merge->next = near->at;
    merge->next_end = near->at += fv_min(floats, near->end - near->at);
}

#endif
