/* The context: what was found and chosen at creation, read by everything after. */
#ifndef FV_CONTEXT_H
#define FV_CONTEXT_H

#include "context/shape_log.h"
#include "cpu/cpu.h"
#include "dispatch/dispatch.h"
#include "fovea/fovea.h"
#include "threads/threads.h"
#include "tuning/tuning.h"

#include <stdbool.h>

struct fovea_context {
    fv_cpu cpu;
    fv_target target; /* the tier and the features in use */
    fv_ops ops;
    fv_threads threads;
    fovea_thread_pool *own_pool; /* of FOVEA_THREADS_POOL, else NULL */
    const char *bind;            /* "bound", or why not */
    char reason[512];
    bool debug;                  /* FOVEA_DEBUG=1 */
    fovea_arithmetic arithmetic; /* the one that FASTEST may take; FASTEST: any */
    fv_tuning_use *tuning;
    fv_shape_log *log; /* NULL: none */
};

/* The context of functions that take none: made at the first call, all defaults, kept for the life of the process. */
fovea_status fv_context_default(const fovea_context **ctx);

/* fovea_context_create() as on a given machine; NULL: on this one. */
fovea_status fv_context_create_on(const fv_cpu *cpu, const fovea_context_options *options, fovea_context **ctx);

/* ------------------------------------------------------------------ nodes of memory (nodes.c) -- */

/* Nodes that have CPUs of this process. */
static inline int fv_context_nodes(const fovea_context *ctx) {
    return ctx->cpu.nodes.count ? ctx->cpu.nodes.with_cpus : 1;
}

/* Binds threads to nodes if the options or the environment want it; after threads are chosen. */
fovea_status fv_context_select_nodes(fovea_context *ctx, fovea_threads_bind option);

/* fovea_context_facts.nodes. */
void fv_context_nodes_text(const fovea_context *ctx, char *text, size_t size);

/* Where pages are; DEFAULT: nothing is to be done. */
typedef struct fv_placement {
    fovea_placement how;
    int node;              /* of FOVEA_PLACEMENT_NODE; of COPIES, where the first is */
    int nodes;             /* how many there are */
    int64_t end[FV_NODES]; /* node i has the parts from the end of i - 1 on */
} fv_placement;

/* Resolves a description's placement and placement_node on this machine, or refuses them. */
fovea_status fv_placement_select(const fovea_context *ctx, fovea_placement placement, int number, fv_placement *taken);

/* Gives count parts of memory, part bytes each, to their nodes, before anything is written there. */
fovea_status fv_placement_apply(const fovea_context *ctx, fv_placement *placement, void *memory, int64_t part,
                                int64_t count);

/* ------------------------------------------------------------------ arithmetics (arithmetic.c) -- */

/* Operations that arithmetics are of, and what they say of their operands. */
typedef enum fv_arithmetic_of { FV_ARITHMETIC_OF_attention, FV_ARITHMETIC_OF_linear } fv_arithmetic_of;

/* The arithmetic that FOVEA_ARITHMETIC names; FASTEST if it is unset or empty. */
fovea_status fv_arithmetic_of_environment(fovea_arithmetic *arithmetic);

/* The arithmetic that FASTEST selects. bf16: whether all operands that arithmetics ask for are bfloat16. */
fovea_arithmetic fv_arithmetic_fastest(const fovea_context *ctx, fv_arithmetic_of operation, bool bf16);

/* An operand that arithmetics ask: "k_dtype". */
typedef struct fv_arithmetic_operand {
    const char *name;
    fovea_dtype dtype;
} fv_arithmetic_operand;

/* The arithmetic in which given is computed; or refuses it for an operand's type. */
fovea_status fv_arithmetic_select(const fovea_context *ctx, fv_arithmetic_of operation, fovea_arithmetic given,
                                  const fv_arithmetic_operand *operands, int count, fovea_arithmetic *taken);

#endif
