/* The context: what was found and chosen at creation, read by everything after. */
#ifndef FV_CONTEXT_H
#define FV_CONTEXT_H

#include "cpu.h"
#include "fovea/fovea.h"

struct fovea_context {
    fv_cpu cpu;
    fv_isa isa;  /* the tier in use */
    int threads; /* most tasks at once */
    fovea_parallel_for parallel_for;
    void *pool;
    char reason[512];
};

#endif
