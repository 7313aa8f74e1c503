/* convolve: causal convolution of each channel, token by token (kernels.h has the formulas).
 *
 * Bound: a load and a multiply-add a tap; by channels, 16 shuffles more; with SiLU its 20 operations, of which exp is
 * 12. */
#include "v_sigmoid.h"

static inline __attribute__((always_inline)) vf convolve_load(const float *x, int64_t left) {
    return left < FV_W ? v_load_n(x, left) : v_load(x);
}

enum { CONVOLVE_QUADS = 4 }; /* taps of channels next to one another, transposed in registers */

static inline void convolve_quads(vf v[CONVOLVE_QUADS], const float *x, int64_t ld) {
#if FV_W > 1
    v_load_transposed_quads(v, x, 4 * ld);
#else
    (void)ld;
    for (int w = 0; w < CONVOLVE_QUADS; w++)
        v[w] = v_load(x + w);
#endif
}

void FV_NAME(const fv_convolve *args) {
    assert(args->tokens >= 0 && args->n >= 0 && args->taps >= 1);
    assert(!args->by_channels || (args->taps == CONVOLVE_QUADS && args->n % FV_LANES == 0));
    for (int64_t t = 0; t < args->tokens; t++)
        for (int64_t j = 0; j < args->n; j += FV_W) {
            const int64_t left = args->n - j;
            vf y = v_set1(0.0f);
            if (args->by_channels) {
                vf weight[CONVOLVE_QUADS], x[CONVOLVE_QUADS];
                convolve_quads(weight, args->weight + j * args->ldweight, args->ldweight);
                convolve_quads(x, args->x + j * args->ldx + t, args->ldx);
                for (int w = 0; w < CONVOLVE_QUADS; w++)
                    y = v_fma(weight[w], x[w], y);
            } else {
                const float *x = args->x + t * args->ldx + j;
                for (int64_t w = 0; w < args->taps; w++)
                    y = v_fma(convolve_load(args->weight + w * args->ldweight + j, left),
                              convolve_load(x + w * args->ldx, left), y);
            }
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
