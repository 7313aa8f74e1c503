/* What the planner decides for one shape, and the door through which tests, benchmarks and the tuner decide it instead.
 */
#ifndef FV_ATTENTION_H
#define FV_ATTENTION_H

#include "fovea/fovea.h"
#include "kernels.h"

/* None of these changes a bit of any result. A field of 0 or NULL: the planner's default. */
typedef struct fv_attention_choice {
    const fv_kernel *score; /* gemm row for scores; any gemm row of the tier */
    const fv_kernel *value; /* gemm row for values */
    int64_t block_rows;     /* of a work item at most, in equal parts: they share the packing of K */
    int64_t tile_rows;      /* rows of a block whose scores are in flight at once */
    int64_t split_segments; /* segments of a task when rows are split over keys; -1: never split */
    int64_t cache_scale;    /* the default is for caches of so many per cent of their size; 0: the context's */
} fv_attention_choice;

/* fovea_attention_plan_create() with some choices made. */
fovea_status fv_attention_plan_create_chosen(const fovea_context *ctx, const fovea_attention_desc *desc,
                                             const fv_attention_choice *choice, fovea_attention_plan **plan);

#endif
