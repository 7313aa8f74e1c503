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
    bool debug;                  /* FOVEA_DEBUG=1 */
    fovea_arithmetic arithmetic; /* the one that FASTEST may take; FASTEST: any */
    fv_tuning_use tuning;
    fv_shape_log *log; /* NULL: none */
};

/* The context of functions that take none: made at the first call, all defaults, kept for the life of the process. */
fovea_status fv_context_default(const fovea_context **ctx);

/* fovea_context_create() as on a given machine. */
fovea_status fv_context_create_on(const fv_cpu *cpu, const fovea_context_options *options, fovea_context **ctx);

/* ------------------------------------------------------------------ arithmetics (arithmetic.c) -- */

/* Operations that arithmetics are of, and what they say of their operands. */
typedef enum fv_arithmetic_of { FV_ARITHMETIC_OF_attention, FV_ARITHMETIC_OF_linear } fv_arithmetic_of;

/* The arithmetic that FOVEA_ARITHMETIC names; FASTEST if it is unset or empty. */
fovea_status fv_arithmetic_of_environment(fovea_arithmetic *arithmetic);

/* What FASTEST takes. bf16: are all operands that arithmetics ask of bfloat16? */
fovea_arithmetic fv_arithmetic_fastest(const fovea_context *ctx, fv_arithmetic_of operation, bool bf16);

/* An operand that arithmetics ask: "k_dtype". */
typedef struct fv_arithmetic_operand {
    const char *name;
    fovea_dtype dtype;
} fv_arithmetic_operand;

/* What given is computed in; or refuses it for an operand's type. */
fovea_status fv_arithmetic_select(const fovea_context *ctx, fv_arithmetic_of operation, fovea_arithmetic given,
                                  const fv_arithmetic_operand *operands, int count, fovea_arithmetic *taken);

#endif
