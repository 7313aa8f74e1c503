/* The context: what was found and chosen at creation, read by everything after. */
#ifndef FV_CONTEXT_H
#define FV_CONTEXT_H

#include "context/shape_log.h"
#include "cpu/cpu.h"
#include "fovea/fovea.h"
#include "threads/threads.h"
#include "tuning/tuning.h"

#include <stdbool.h>

struct fovea_context {
    fv_cpu cpu;
    fv_target target; /* the tier and the features in use */
    fv_threads threads;
    char reason[512];
    bool debug; /* FOVEA_DEBUG=1 */
    fv_tuning_use tuning;
    fv_shape_log *log; /* NULL: none */
};

/* The context of functions that take none: made at the first call, all defaults, kept for the life of the process. */
fovea_status fv_context_default(const fovea_context **ctx);

/* fovea_context_create() as on a given machine. */
fovea_status fv_context_create_on(const fv_cpu *cpu, const fovea_context_options *options, fovea_context **ctx);

#endif
