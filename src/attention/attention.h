/* The module of attention: the one header of it that others include, besides tuning.h. What the planner decides for a
 * shape, and how tests, benchmarks and the tuner decide it instead; execution whose arguments were checked before; what
 * causality and windows leave of a shape. plan.h and the rest are the module's own.
 */
#ifndef FV_ATTENTION_H
#define FV_ATTENTION_H

#include "core/core.h"
#include "fovea/fovea.h"
#include "kernels.h"

#include <stdbool.h>

/* None of these changes a bit of any result. A field of 0 or NULL: the planner's default. */
typedef struct fv_attention_choice {
    const fv_kernel *score; /* multiplies scores; any such row of the tier */
    const fv_kernel *value; /* multiplies values */
    int64_t block_rows;     /* of a row block at most, in equal parts: they share the packing of K */
    int64_t tile_rows;      /* rows of a block whose scores are in flight at once */
    /* Segments per task where rows are split over keys; -1: never split; 0: by lengths and threads. */
    int64_t split_segments;
    int64_t k, v; /* sources of keys and values: 1 + their place in sources/sources.inc */
    /* The most rows of a block that uses keys and values in place; -1: no block does. */
    int64_t few_rows;
    int64_t copy_rows;   /* fewest rows of a block for which badly placed values are copied */
    int64_t amx_rows;    /* likewise, bf16_tile goes over AMX tiles */
    int64_t stream_rows; /* most rows of a block that leaves prefetching to the hardware, where it can; -1: none */
    int64_t threads;     /* at most */
    int64_t cache_scale; /* per cent of the caches' sizes for which defaults are made; 0: 100 */
} fv_attention_choice;

/* fovea_attention_plan_create() with some choices made. */
fovea_status fv_attention_plan_create_chosen(const fovea_context *ctx, const fovea_attention_desc *desc,
                                             const fv_attention_choice *choice, fovea_attention_plan **plan);

/* Reads what may be an older caller's, completes it by defaults, and checks it. */
fovea_status fv_attention_read_desc(const fovea_attention_desc *given, fovea_attention_desc *desc);

/* Brings desc->arithmetic to what it is computed in, or refuses it for these types. */
fovea_status fv_attention_select_arithmetic(const fovea_context *ctx, fovea_attention_desc *desc);

/* The arguments as this library knows them: the caller's, or own, made of those of an older one. */
const fovea_attention_args *fv_attention_read_args(const fovea_attention_args *given, fovea_attention_args *own,
                                                   fovea_status *status);

/* Checks all that execution relies on. */
fovea_status fv_attention_check_args(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                     const void *workspace, size_t workspace_size);

/* Spans of the arguments' arrays, of numbers for sequences or heads; empty where there is none. */
enum {
#define FOVEA_ARGS_LENGTHS(name, more, text) FV_ATTENTION_ARRAY_##name,
#define FOVEA_ARGS_HEADS(name, flag, text) FV_ATTENTION_ARRAY_##name,
#include "fovea/fields.inc"
    FV_ATTENTION_ARRAYS
};
void fv_attention_array_spans(const fovea_attention_desc *desc, const fovea_attention_args *args,
                              fv_span spans[FV_ATTENTION_ARRAYS]);

/* Checks the mask among arguments, and gives the spans of its tensor and of its list of blocks. */
fovea_status fv_attention_check_mask(const fovea_attention_desc *desc, const fovea_attention_args *args,
                                     fv_span spans[2]);

/* Checks args.scores and args.summary, and gives the spans of their tensors; that of the last, the list of heads, is
 * read. */
enum { FV_ATTENTION_OUTPUTS = 7, FV_ATTENTION_OUTPUTS_WRITTEN = 6 };
fovea_status fv_attention_check_outputs(const fovea_attention_desc *desc, const fovea_attention_args *args,
                                        fv_span spans[FV_ATTENTION_OUTPUTS]);

/* Executes checked arguments in a workspace that is large enough. Fails only where keys are in pages, and then before
 * an output is written. */
fovea_status fv_attention_run(const fovea_attention_plan *plan, const fovea_attention_args *args, void *workspace);

/* Has it no rows? */
bool fv_attention_empty(const fovea_attention_desc *desc);

/* Has it a window with a limit? */
bool fv_attention_windowed(const fovea_attention_desc *desc);

/* Is it causal, or with a window, so that rows may see different keys? */
bool fv_attention_limited(const fovea_attention_desc *desc);

/* Pairs of a row and a key that causality and window leave, of one head, if all sequences have their full lengths. */
double fv_attention_pairs(const fovea_attention_desc *desc);

/* Keys from the first that the first row sees to the last that the last row sees, likewise. */
int64_t fv_attention_keys(const fovea_attention_desc *desc);

#endif
