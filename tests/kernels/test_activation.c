/* The error function, softplus and the activations made of them and of exp, over the floats.
 *
 *     test-activation                   a sample of all floats; a second
 *     test-activation --exhaustive      each of them; some minutes
 *
 * That every tier gives the scalar tier's bits, and that the scalar tier's erf and softplus are within 2 ulp of SLEEF's
 * in double.
 */
#include "dispatch/dispatch.h"
#include "simd/simd_scalar.h"
#include "target.h"
#include "test.h"

#include <sleef.h>

#include "body/v_erf.h"
#include "body/v_softplus.h"

enum { BLOCK = 4096 };

typedef struct block {
    float x[BLOCK], got[BLOCK], want[BLOCK];
} block;

static const char *const words[] = {"none", "relu",    "gelu", "gelu tanh", "silu",    "",
                                    "tanh", "sigmoid", "",     "",          "softplus"};

static void compare(const fv_kernel *row, const fv_kernel *oracle, block *b, fv_activation activation) {
    const fv_bias_act_residual args = {.activation = activation};
    row->run.bias_act_residual_f32(1, BLOCK, b->x, BLOCK, &args, b->got, BLOCK);
    oracle->run.bias_act_residual_f32(1, BLOCK, b->x, BLOCK, &args, b->want, BLOCK);
    test_same(b->got, b->want, BLOCK, "%s against %s, %s from %a", row->name, oracle->name, words[activation],
              (double)b->x[0]);
}

/* The worst error of erf over every step-th float of the block. */
static double erf_error(const block *b, int step) {
    double worst = 0.0;
    for (int i = 0; i < BLOCK; i += step)
        if (!float_is_nan(b->x[i])) {
            const double error = ulp_error(v_erf(b->x[i]), Sleef_cinz_erfd1_u10purec((double)b->x[i]));
            worst = error > worst ? error : worst;
        }
    return worst;
}

/* Likewise of softplus, where its exp is a normal number. */
static double softplus_error(const block *b, int step) {
    double worst = 0.0;
    for (int i = 0; i < BLOCK; i += step)
        if (b->x[i] >= EXP_LOWEST && b->x[i] <= V_SOFTPLUS_LINEAR)
            worst = fmax(worst, ulp_error(v_softplus(b->x[i]),
                                          Sleef_cinz_log1pd1_u10purec(Sleef_cinz_expd1_u10purec((double)b->x[i]))));
    return worst;
}

int main(int argc, char **argv) {
    test_option options[] = {{"--exhaustive", NULL, "every float, not a sample", NULL}, {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "activation", options);
    const bool all = test_option_value(options, "--exhaustive");
    const int64_t step = all ? 1 : 2039;
    const fv_kernel *row = fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, test_target());
    const fv_kernel *oracle = fv_kernel_scalar(FV_OP_bias_act_residual, FV_TYPE_f32);
    static block b;
    for (int64_t first = 0; first <= UINT32_MAX; first += BLOCK * step) {
        for (int64_t i = 0; i < BLOCK; i++)
            b.x[i] = bits_float((uint32_t)(first + i * step));
        for (int a = FV_ACT_RELU; a <= FV_ACT_SOFTPLUS; a++)
            if (words[a][0])
                compare(row, oracle, &b, (fv_activation)a);
        const double worst = erf_error(&b, all ? 16 : 1);
        const double off = softplus_error(&b, all ? 16 : 1);
        test_check(off <= 2.0, "softplus is off by %.3f ulp near %a", off, (double)b.x[0]);
        test_check(worst <= 2.0, "erf is off by %.3f ulp near %a", worst, (double)b.x[0]);
    }
    return test_end();
}
