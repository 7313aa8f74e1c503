/* Trials of bias_act_residual: every activation, with and without bias, residual and what it gates, the
 * residual also in place. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_N, SIZE_ACTIVATION, SIZE_BIAS, SIZE_RESIDUAL, SIZE_GATE }; /* t->size */
enum { OPERAND_C, OPERAND_Y, OPERAND_BIAS }; /* t->operand; the residual is the last */

typedef enum residual { RESIDUAL_NONE, RESIDUAL_APART, RESIDUAL_IN_PLACE, RESIDUALS } residual;
static const char *const residual_words[RESIDUALS] = {"no residual", "residual", "residual in place"};
static const char *const activation_words[] = {"none", "relu",    "gelu", "gelu tanh", "silu",    "",
                                               "tanh", "sigmoid", "",     "",          "softplus"};
enum { ACTIVATIONS = 8, GATES = 3 };
static const int activations[ACTIVATIONS] = {FV_ACT_NONE, FV_ACT_RELU, FV_ACT_GELU,    FV_ACT_GELU_TANH,
                                             FV_ACT_SILU, FV_ACT_TANH, FV_ACT_SIGMOID, FV_ACT_SOFTPLUS};
static const char *const gate_words[GATES] = {"", ", gates", ", gates with bias"};

static void bias_act_residual_trial(checker *c, int64_t rows, int64_t n, int activation, bool bias, residual how,
                                    int gate, bool special) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " %s, %s, %s%s%s", rows, n, activation_words[activation],
                           bias ? "bias" : "no bias", residual_words[how], gate_words[gate],
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_N] = n;
    t->size[SIZE_ACTIVATION] = activation;
    t->size[SIZE_BIAS] = bias;
    t->size[SIZE_RESIDUAL] = how;
    t->size[SIZE_GATE] = gate;
    operand *in = trial_floats(t, "c", CELL_KEPT, rows, n, some_stride(t, n));
    operand *y = trial_floats(t, "y", CELL_BITS, rows, n, some_stride(t, n));
    fill_uniform(t, in, -6.0f, 6.0f);
    if (special)
        sprinkle_specials(t, in, 3);
    if (bias)
        fill_normal(t, trial_floats(t, "bias", CELL_KEPT, 1, n, n));
    if (gate > 0) {
        operand *up = trial_floats(t, "up", CELL_KEPT, rows, n, some_stride(t, n));
        fill_normal(t, up);
        if (special)
            sprinkle_specials(t, up, 8);
    }
    if (gate > 1)
        fill_normal(t, trial_floats(t, "up_bias", CELL_KEPT, 1, n, n));
    if (how == RESIDUAL_APART)
        y = trial_floats(t, "residual", CELL_KEPT, rows, n, some_stride(t, n));
    if (how != RESIDUAL_NONE) {
        fill_normal(t, y);
        if (special)
            sprinkle_specials(t, y, 8);
    }
    trial_run(t);
}

static void bias_act_residual_trials(checker *c) {
    for (int64_t n = 1; n <= 2 * c->kernel->nr + 1; n++)
        for (int a = 0; a < ACTIVATIONS; a++)
            for (int i = 0; i < 2 * RESIDUALS; i++)
                bias_act_residual_trial(c, 1 + (n + i) % 3, n, activations[a], i % 2, (residual)(i / 2),
                                        (int)(n + i / 2) % GATES, (n + i) % 3 == 0);
    for (int a = 0; a < ACTIVATIONS; a++)
        for (int special = 0; special < 2; special++)
            for (int gate = 0; gate < GATES; gate++)
                bias_act_residual_trial(c, 9, 133, activations[a], true, RESIDUAL_APART, gate, special);
}

/* The operand that holds the residual. */
static int residual_index(const trial *t) {
    return t->size[SIZE_RESIDUAL] == RESIDUAL_IN_PLACE ? OPERAND_Y : t->operands - 1;
}

/* The operand of what is gated, behind the bias; its own bias follows. */
static int up_index(const trial *t) { return t->size[SIZE_BIAS] ? OPERAND_BIAS + 1 : OPERAND_BIAS; }

static void bias_act_residual_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    fv_bias_act_residual args = {.activation = (fv_activation)t->size[SIZE_ACTIVATION]};
    if (t->size[SIZE_BIAS])
        args.bias = trial_pointer(t, OPERAND_BIAS);
    if (t->size[SIZE_GATE] > 0) {
        args.up = trial_pointer(t, up_index(t));
        args.ldup = o[up_index(t)].stride;
    }
    if (t->size[SIZE_GATE] > 1)
        args.up_bias = trial_pointer(t, up_index(t) + 1);
    if (t->size[SIZE_RESIDUAL] != RESIDUAL_NONE) {
        args.residual = trial_pointer(t, residual_index(t));
        args.ldresidual = o[residual_index(t)].stride;
    }
    kernel->run.bias_act_residual_f32(t->size[SIZE_ROWS], t->size[SIZE_N], trial_pointer(t, OPERAND_C),
                                      o[OPERAND_C].stride, &args, trial_pointer(t, OPERAND_Y), o[OPERAND_Y].stride);
}

static double activated(int64_t activation, double t) {
    switch (activation) {
    case FV_ACT_RELU: return t < 0 ? 0 : t;
    case FV_ACT_GELU: return t * 0.5 * (1 + erf(t * sqrt(0.5)));
    case FV_ACT_GELU_TANH: return t * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (t + 0.044715 * t * t * t)));
    case FV_ACT_SILU: return t / (1 + exp(-t));
    case FV_ACT_TANH: return tanh(t);
    case FV_ACT_SIGMOID: return 1 / (1 + exp(-t));
    case FV_ACT_SOFTPLUS: return t > 20 ? t : log1p(exp(t));
    default: return t;
    }
}

static bool bias_act_residual_element(const trial *t, int64_t i, int64_t j) {
    float x = *float_before(&t->operand[OPERAND_C], i, j);
    if (t->size[SIZE_BIAS])
        x += *float_before(&t->operand[OPERAND_BIAS], 0, j);
    const bool smooth = t->size[SIZE_ACTIVATION] >= FV_ACT_GELU;
    double exact = activated(t->size[SIZE_ACTIVATION], x);
    double bound =
        smooth ? 4 * float_eps() * fabs(t->size[SIZE_ACTIVATION] >= FV_ACT_TANH ? exact : (double)x) + 0x1p-149 : 0;
    if (t->size[SIZE_GATE] > 0) {
        float up = *float_before(&t->operand[up_index(t)], i, j);
        if (t->size[SIZE_GATE] > 1)
            up += *float_before(&t->operand[up_index(t) + 1], 0, j);
        exact *= (double)up;
        bound = bound * fabs((double)up) + float_eps() * fabs(exact) + 0x1p-149;
    }
    const bool overflows = fabs(exact) >= 0x1p127; /* before a residual of that size brings it back */
    if (t->size[SIZE_RESIDUAL] != RESIDUAL_NONE) {
        exact += *float_before(&t->operand[residual_index(t)], i, j);
        bound += float_eps() * fabs(exact);
    }
    const float got = float_want(&t->operand[OPERAND_Y], i, j);
    if (float_is_nan(got) && float_bits(got) != CANONICAL_NAN) {
        trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is NaN 0x%08" PRIx32, i, j, float_bits(got));
        return false;
    }
    if (!overflows && fabs(exact) < 0x1p127 && !near_double(got, exact, bound)) {
        trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g (bound %.3g)", i, j, (double)got, exact,
                   bound);
        return false;
    }
    return true;
}

static void bias_act_residual_verify(const trial *t) {
    for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++)
        for (int64_t j = 0; j < t->size[SIZE_N]; j++)
            if (!bias_act_residual_element(t, i, j))
                return;
}

const op_check check_bias_act_residual = {bias_act_residual_trials, bias_act_residual_invoke, bias_act_residual_verify};
