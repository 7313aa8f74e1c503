/* sweep: FV_LANES columns of a state that is stored by columns are updated, those that come next are summed
 * (kernels.h has the formulas).
 *
 * Rows of a column are next to one another. Updates take vectors of rows, as they are stored. Sums are chains over
 * rows, for which blocks of FV_W x FV_W are transposed in registers; nothing is transposed back. Two chains, of columns
 * that do not depend on each other, go side by side.
 *
 * Bound: 10 operations a vector of 8 lanes, 6 of them shuffles; 12 of 16 lanes, 8 of them shuffles. Figures and what
 * was tried: docs/lab/recurrences.md. */
#include "prefetch_ahead.h"

enum { SWEEP_LINE = 16 /* floats of a cache line */ };

static inline __attribute__((always_inline)) vf sweep_add(vf block[FV_W], const float *x, vf sum) {
    v_transpose(block);
    for (int r = 0; r < FV_W; r++)
        sum = v_fma(v_set1(x[r]), block[r], sum);
    return sum;
}

/* Columns [c, c + FV_W). */
static inline __attribute__((always_inline)) void sweep_columns(fv_sweep *w, int64_t c) {
    const int64_t ldfrom = w->ldfrom, ldto = w->ldto, ldnext = w->ldnext;
    const float *const behind = w->behind;
    vf m = v_set1(0.0f), o = m, block[FV_W];
    for (int64_t i = 0; i < w->rows; i += FV_W) {
        if (behind && i % SWEEP_LINE == 0)
#pragma GCC unroll 1
            for (int64_t j = 0; j < FV_W; j++)
                __builtin_prefetch(fv_ahead(behind, (FV_LANES + c) * w->rows + FV_W * i + SWEEP_LINE * j), 0, 2);
        if (w->next) {
            const float *next = w->next + c * ldnext + i;
            for (int r = 0; r < FV_W; r++, next += ldnext)
                block[r] = v_load(next);
            m = sweep_add(block, w->decayed + i, m);
        }
        if (w->from) {
            const vf decay = v_load(w->decay + i), key = v_load(w->k + i);
            const float *from = w->from + c * ldfrom + i;
            float *to = w->to + c * ldto + i;
            for (int r = 0; r < FV_W; r++, from += ldfrom, to += ldto) {
                block[r] = v_fma(key, v_set1(w->d[c + r]), v_mul(decay, v_load(from)));
                v_store(to, block[r]);
            }
            o = sweep_add(block, w->q + i, o);
        }
    }
    if (w->from) {
        const vf y = v_mul(v_set1(w->scale), o);
        w->nan |= v_to_bits(v_nan(o));
        v_store(w->o + c, v_select(v_nan(y), v_set1(NAN), y));
    }
    if (w->v)
        v_store(w->d + c, v_mul(v_set1(w->beta), v_sub(v_load(w->v + c), m)));
}

void FV_NAME(fv_sweep *w) {
    assert(w->rows >= 1 && w->rows % FV_LANES == 0);
#pragma GCC unroll 1
    for (int64_t c = 0; c < FV_LANES; c += FV_W)
        sweep_columns(w, c);
}
