/* convolve: causal convolution of each channel, token by token (kernels.h has the formulas).
 *
 * Bound: a load and a multiply-add a tap; with SiLU its 20 operations, of which exp is 12. */
#include "v_sigmoid.h"

static inline __attribute__((always_inline)) vf convolve_load(const float *x, int64_t left) {
    return left < FV_W ? v_load_n(x, left) : v_load(x);
}

void FV_NAME(const fv_convolve *args) {
    assert(args->tokens >= 0 && args->n >= 0 && args->taps >= 1);
    for (int64_t t = 0; t < args->tokens; t++)
        for (int64_t j = 0; j < args->n; j += FV_W) {
            const int64_t left = args->n - j;
            const float *x = args->x + t * args->ldx + j;
            vf y = v_set1(0.0f);
            for (int64_t w = 0; w < args->taps; w++)
                y = v_fma(convolve_load(args->weight + w * args->ldweight + j, left),
                          convolve_load(x + w * args->ldx, left), y);
            if (args->bias)
                y = v_add(y, convolve_load(args->bias + j, left));
            if (args->silu)
                y = v_sigmoid(y, y);
            y = v_select(v_nan(y), v_set1(NAN), y);
            if (left < FV_W)
                v_store_n(args->y + t * args->ldy + j, left, y);
            else
                v_store(args->y + t * args->ldy + j, y);
        }
}
