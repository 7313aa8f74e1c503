/* Mutants of after: what a projection does to a product as it leaves it. */
#include "mutants.h"

#define AFTER_PARAMETERS                                                                                               \
    int64_t rows, int64_t n, const float *c, int64_t ldc, const fv_bias_act_residual *after, float *y, int64_t ldy
#define AFTER_ARGUMENTS rows, n, c, ldc, after, y, ldy

static void after_honest(AFTER_PARAMETERS) {
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(AFTER_ARGUMENTS);
}

static void after_residual_first(AFTER_PARAMETERS) { /* inside of the activation */
    fv_bias_act_residual plain = *after;
    plain.activation = FV_ACT_NONE;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &plain, y, ldy);
    const fv_bias_act_residual rest = {.activation = after->activation};
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, y, ldy, &rest, y, ldy);
}

static void after_other_gelu(AFTER_PARAMETERS) {
    fv_bias_act_residual other = *after;
    other.activation = after->activation == FV_ACT_GELU ? FV_ACT_GELU_TANH : after->activation;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &other, y, ldy);
}

static const mutant mutants[] = {
    MUTANT(PASSES, bias_act_residual, f32, 1, 8, after_honest),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, after_residual_first),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, after_other_gelu),
};

const mutant_table mutants_after = {mutants, sizeof mutants / sizeof mutants[0]};
