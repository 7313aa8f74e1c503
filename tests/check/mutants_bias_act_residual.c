/* Mutants of bias_act_residual: what a projection does to a product as it leaves it. */
#include "mutants.h"

#define BIAS_ACT_RESIDUAL_PARAMETERS                                                                                   \
    int64_t rows, int64_t n, const float *c, int64_t ldc, const fv_bias_act_residual *args, float *y, int64_t ldy
#define BIAS_ACT_RESIDUAL_ARGUMENTS rows, n, c, ldc, args, y, ldy

static void bias_act_residual_honest(BIAS_ACT_RESIDUAL_PARAMETERS) {
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(BIAS_ACT_RESIDUAL_ARGUMENTS);
}

static void bias_act_residual_residual_first(BIAS_ACT_RESIDUAL_PARAMETERS) { /* inside of the activation */
    fv_bias_act_residual plain = *args;
    plain.activation = FV_ACT_NONE;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &plain, y, ldy);
    const fv_bias_act_residual rest = {.activation = args->activation};
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, y, ldy, &rest, y, ldy);
}

static void bias_act_residual_other_gelu(BIAS_ACT_RESIDUAL_PARAMETERS) {
    fv_bias_act_residual other = *args;
    other.activation = args->activation == FV_ACT_GELU ? FV_ACT_GELU_TANH : args->activation;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &other, y, ldy);
}

static void bias_act_residual_gates_without_bias(BIAS_ACT_RESIDUAL_PARAMETERS) {
    fv_bias_act_residual other = *args;
    other.up_bias = NULL;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &other, y, ldy);
}

static void bias_act_residual_gates_nothing(BIAS_ACT_RESIDUAL_PARAMETERS) {
    fv_bias_act_residual other = *args;
    other.up = NULL;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &other, y, ldy);
}

static const mutant mutants[] = {
    MUTANT(PASSES, bias_act_residual, f32, 1, 8, bias_act_residual_honest),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, bias_act_residual_residual_first),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, bias_act_residual_other_gelu),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, bias_act_residual_gates_without_bias),
    MUTANT(DIFFERS_AS_REFERENCE, bias_act_residual, f32, 1, 8, bias_act_residual_gates_nothing),
};

const mutant_table mutants_bias_act_residual = {mutants, sizeof mutants / sizeof mutants[0]};
