/* The choice of arithmetics (context.h): by CPU features, operation and types alone. */
#include "context/context.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* Arithmetics that operations have kernels for. */
static const bool there[][FOVEA_ARITHMETIC_Q8 + 1] = {
    [FV_ARITHMETIC_OF_attention] =
        {[FOVEA_ARITHMETIC_EXACT] = true, [FOVEA_ARITHMETIC_BF16] = true, [FOVEA_ARITHMETIC_BF16_TILE] = true},
    [FV_ARITHMETIC_OF_linear] =
        {[FOVEA_ARITHMETIC_EXACT] = true, [FOVEA_ARITHMETIC_BF16] = true, [FOVEA_ARITHMETIC_BF16_TILE] = true},
};

static const char *const operations[] = {
    [FV_ARITHMETIC_OF_attention] = "attention", [FV_ARITHMETIC_OF_linear] = "a linear map"};

fovea_status fv_arithmetic_of_environment(fovea_arithmetic *arithmetic) {
    const char *word = fv_environment("FOVEA_ARITHMETIC");
    *arithmetic = FOVEA_ARITHMETIC_FASTEST;
    if (!word || !*word)
        return FOVEA_OK;
    for (int i = 0; fv_arithmetic_words[i]; i++)
        if (strcmp(word, fv_arithmetic_words[i]) == 0) {
            *arithmetic = (fovea_arithmetic)i;
            return FOVEA_OK;
        }
    return fv_fail(FOVEA_ERROR_ENVIRONMENT,
                   "FOVEA_ARITHMETIC=\"%.40s\" is not an arithmetic; known: exact, bf16, bf16_tile, fastest", word);
}

/* The one that gains most from units of this CPU. BF16_TILE must be named, until its kernels have been timed on a CPU
 * with AMX. */
static fovea_arithmetic by_cpu(const fovea_context *ctx, fv_arithmetic_of operation) {
#ifdef FV_HAVE_X86
    if ((ctx->target.features & FV_HAS_avx512_bf16) && ctx->cpu.fast_pairs && operation == FV_ARITHMETIC_OF_attention)
        return FOVEA_ARITHMETIC_BF16;
#endif
    (void)ctx, (void)operation;
    return FOVEA_ARITHMETIC_EXACT;
}

fovea_arithmetic fv_arithmetic_fastest(const fovea_context *ctx, fv_arithmetic_of operation, bool bf16) {
    const fovea_arithmetic narrowed = ctx->arithmetic;
    if (!bf16)
        return FOVEA_ARITHMETIC_EXACT;
    if (narrowed == FOVEA_ARITHMETIC_FASTEST)
        return by_cpu(ctx, operation);
    return there[operation][narrowed] ? narrowed : FOVEA_ARITHMETIC_EXACT;
}

fovea_status fv_arithmetic_select(const fovea_context *ctx, fv_arithmetic_of operation, fovea_arithmetic given,
                                  const fv_arithmetic_operand *operands, int count, fovea_arithmetic *taken) {
    const fv_arithmetic_operand *other = NULL;
    *taken = FOVEA_ARITHMETIC_EXACT;
    const fovea_status status = fv_enum_check(FV_ENUM_arithmetic, "arithmetic", (int)given);
    if (status != FOVEA_OK || given == FOVEA_ARITHMETIC_EXACT || given == FOVEA_ARITHMETIC_DEFAULT)
        return status;
    for (int i = 0; i < count && !other; i++)
        if (operands[i].dtype != FOVEA_DTYPE_BF16)
            other = &operands[i];
    if (given == FOVEA_ARITHMETIC_FASTEST) {
        *taken = fv_arithmetic_fastest(ctx, operation, !other);
        return FOVEA_OK;
    }
    if (other)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "arithmetic is %s, which takes operands of FOVEA_DTYPE_BF16; %s is %s",
                       fv_enum_name(FV_ENUM_arithmetic, (int)given), other->name,
                       fv_enum_name(FV_ENUM_dtype, (int)other->dtype));
    if (!there[operation][given])
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "arithmetic is %s, which this version does not have for %s",
                       fv_enum_name(FV_ENUM_arithmetic, (int)given), operations[operation]);
    *taken = given;
    return FOVEA_OK;
}
