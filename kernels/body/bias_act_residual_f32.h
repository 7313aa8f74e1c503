/* bias_act_residual: what a projection does with its accumulators: bias, activation, residual (kernels.h has the
 * formulas).
 *
 * Bound: without an activation the loads and stores, a 1/k-th of the product's time; GELU 40 operations a vector, as
 * many as the product of 40 channels, of which exp is 12.
 */
#include "v_erf.h"
#include "v_sigmoid.h"
#include "v_softplus.h"
#include "v_tanh.h"

static inline vf act_gelu(vf t) {
    const vf half = v_mul(t, v_set1(0.5f));
    return v_fma(half, v_erf(v_mul(t, v_set1(0x1.6a09e6p-1f))), half); /* sqrt(1/2) */
}

/* u = 2 sqrt(2/pi) (t + 0.044715 t^3) */
static inline vf act_gelu_tanh(vf t) {
    return v_sigmoid(t, v_mul(t, v_fma(v_mul(t, t), v_set1(0x1.2444f2p-4f), v_set1(0x1.988454p+0f))));
}

/* Those of heads and gates, for few numbers: their text counts for more than their time. */
static __attribute__((noinline)) vf act_of_heads(vf t, fv_activation activation) {
    int near = 0;
    if (activation == FV_ACT_SIGMOID)
        return v_sigmoid(v_set1(1.0f), t);
    if (activation == FV_ACT_SOFTPLUS)
        return v_softplus(t);
    v_tanh_each(&t, 1, &near);
    return t;
}

/* activation is a constant in each case of the switch below but the last. */
static inline __attribute__((always_inline)) vf act(vf t, const fv_activation activation) {
    switch (activation) {
    case FV_ACT_RELU: return v_select(v_not_lt(t, v_set1(0.0f)), t, v_set1(0.0f));
    case FV_ACT_GELU: return act_gelu(t);
    case FV_ACT_GELU_TANH: return act_gelu_tanh(t);
    case FV_ACT_SILU: return v_sigmoid(t, t);
    case FV_ACT_NONE: return t;
    default: return act_of_heads(t, activation);
    }
}

static inline __attribute__((always_inline)) void bias_act_residual_row(int64_t n, const float *c, const float *bias,
                                                                        const float *up, const float *up_bias,
                                                                        const float *residual, float *y,
                                                                        const fv_activation activation) {
    for (int64_t j = 0; j < n; j += FV_W) {
        const int64_t left = n - j;
        vf t = left < FV_W ? v_load_n(c + j, left) : v_load(c + j);
        if (bias)
            t = v_add(t, left < FV_W ? v_load_n(bias + j, left) : v_load(bias + j));
        t = act(t, activation);
        if (up) {
            vf u = left < FV_W ? v_load_n(up + j, left) : v_load(up + j);
            if (up_bias)
                u = v_add(u, left < FV_W ? v_load_n(up_bias + j, left) : v_load(up_bias + j));
            t = v_mul(t, u);
        }
        if (residual)
            t = v_add(t, left < FV_W ? v_load_n(residual + j, left) : v_load(residual + j));
        t = v_select(v_nan(t), v_set1(NAN), t);
        if (left < FV_W)
            v_store_n(y + j, left, t);
        else
            v_store(y + j, t);
    }
}

void FV_NAME(int64_t rows, int64_t n, const float *c, int64_t ldc, const fv_bias_act_residual *args, float *y,
             int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldc >= 0);
    assert(rows <= 1 || ldy >= n);
    assert((unsigned)args->activation <= FV_ACT_SOFTPLUS);
    assert(args->residual != y || args->ldresidual == ldy || rows <= 1);
    const float *residual = args->residual, *up = args->up, *bias = args->bias, *up_bias = args->up_bias;
    for (int64_t i = 0; i < rows; i++, c += ldc, y += ldy) {
        switch (args->activation) {
        case FV_ACT_NONE: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, FV_ACT_NONE); break;
        case FV_ACT_RELU: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, FV_ACT_RELU); break;
        case FV_ACT_GELU: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, FV_ACT_GELU); break;
        case FV_ACT_GELU_TANH: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, FV_ACT_GELU_TANH); break;
        case FV_ACT_SILU: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, FV_ACT_SILU); break;
        case FV_ACT_TANH:
        case FV_ACT_SIGMOID:
        case FV_ACT_SOFTPLUS: bias_act_residual_row(n, c, bias, up, up_bias, residual, y, args->activation); break;
        }
        residual += residual ? args->ldresidual : 0;
        up += up ? args->ldup : 0;
    }
}
