/* scan: a state of FV_STATE_COLUMNS channels, each with decays of its own, through many tokens (kernels.h has the
 * formulas).
 *
 * Bound: the exp of each element of the state and token, 12 operations, and 4 of the recurrence. FV_GROUP vectors of
 * channels go through it side by side. */
#include "v_exp_any.h"

enum { SCAN_VECTORS = FV_STATE_COLUMNS / FV_W, SCAN_GROUP = SCAN_VECTORS < FV_GROUP ? SCAN_VECTORS : FV_GROUP };

static inline void scan_group(const fv_scan *args, int64_t at) {
    for (int64_t t = 0; t < args->tokens; t++) {
        const float *x = args->x + t * args->ldx + at, *dt = args->dt + t * args->lddt + at;
        const float *b = args->b + t * args->ldb, *c = args->c + t * args->ldc;
        float *s = args->state + at, *o = args->o + t * args->ldo + at;
        vf step[SCAN_GROUP], u[SCAN_GROUP], y[SCAN_GROUP];
        for (int g = 0; g < SCAN_GROUP; g++) {
            step[g] = v_load(dt + g * FV_W);
            u[g] = v_mul(step[g], v_load(x + g * FV_W));
            y[g] = v_set1(0.0f);
        }
        for (int64_t i = 0; i < args->rows; i++, s += FV_STATE_COLUMNS) {
            const float *a = args->a + i * FV_STATE_COLUMNS + at;
            vf decay[SCAN_GROUP];
            for (int g = 0; g < SCAN_GROUP; g++)
                decay[g] = v_mul(step[g], v_load(a + g * FV_W));
            exp_replace(decay, SCAN_GROUP);
            for (int g = 0; g < SCAN_GROUP; g++) {
                const vf next = v_fma(v_set1(b[i]), u[g], v_mul(decay[g], v_load(s + g * FV_W)));
                v_store(s + g * FV_W, next);
                y[g] = v_accumulate(v_set1(c[i]), next, y[g]);
            }
        }
        for (int g = 0; g < SCAN_GROUP; g++) {
            if (args->skip)
                y[g] = v_fma(v_load(args->skip + at + g * FV_W), v_load(x + g * FV_W), y[g]);
            v_store(o + g * FV_W, v_select(v_nan(y[g]), v_set1(NAN), y[g]));
        }
    }
}

void FV_NAME(const fv_scan *args) {
    assert(args->tokens >= 0 && args->rows >= 1);
    for (int64_t at = 0; at < FV_STATE_COLUMNS; at += SCAN_GROUP * FV_W)
        scan_group(args, at);
}
