/* A head of few tokens whose state is stored by columns, which the sweep kernel updates where they are (recurrence.h).
 * Panels of FV_LANES columns go through their tokens two by two, in turns: while a sweep updates one panel, it sums the
 * next in this order, which does not depend on it. */
#include "recurrence/recurrence.h"

void fv_columns_run(fv_sweep_f32_fn *sweep, const fv_delta *call, int64_t columns) {
    const int64_t tokens = call->tokens, items = columns / FV_LANES * tokens;
    fv_sweep w = {.rows = call->rows, .scale = call->scale, .ldto = call->ldto};
    for (int64_t item = 0; item <= items; item++) {
        const int64_t t = item / 2 % tokens, at = (item / (2 * tokens) * 2 + item % 2) * FV_LANES;
        float *to = call->to + at * call->ldto;
        const float *from = t ? to : call->from + at * call->ldfrom;
        w.ldnext = t ? call->ldto : call->ldfrom;
        w.behind = t == 0 && w.ldnext == w.rows ? from : NULL;
        w.next = call->correct && item < items ? from : NULL;
        w.v = item < items ? call->v + t * call->ldv + at : NULL;
        w.decayed = call->decayed + t * call->lddecayed;
        w.beta = call->beta[t];
        sweep(&w);
        for (int64_t j = 0; w.nan && j < FV_LANES; j++)
            fv_vector_canonical(w.rows, w.to + j * w.ldto);
        w.nan = 0;
        w.from = from;
        w.ldfrom = w.ldnext;
        w.to = to;
        w.o = call->o + t * call->ldo + at;
        w.decay = call->decay + t * call->lddecay;
        w.k = call->k + t * call->ldk;
        w.q = call->q + t * call->ldq;
    }
}
