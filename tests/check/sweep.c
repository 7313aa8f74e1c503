/* Trials of sweep. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_UPDATE, SIZE_SUM, SIZE_IN_PLACE }; /* t->size */
enum {
    SWEEP_DECAY,
    SWEEP_K,
    SWEEP_Q,
    SWEEP_DECAYED,
    SWEEP_V,
    SWEEP_NEXT,
    SWEEP_D,
    SWEEP_O,
    SWEEP_NAN,
    SWEEP_FROM,
    SWEEP_TO
};

static void sweep_trial(checker *c, int64_t rows, bool update, bool sum, bool in_place, bool special) {
    trial *t = trial_begin(c, "rows=%" PRId64 "%s%s%s%s", rows, update ? ", update" : "", sum ? ", sum" : "",
                           in_place ? ", in place" : "", special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_SUM] = sum;
    t->size[SIZE_UPDATE] = update;
    t->size[SIZE_IN_PLACE] = in_place;
    t->number = 0.125f;
    fill_uniform(t, trial_floats(t, "decay", CELL_KEPT, 1, rows, rows), 0.5f, 1.0f);
    fill_uniform(t, trial_floats(t, "k", CELL_KEPT, 1, rows, rows), -0.25f, 0.25f);
    fill_normal(t, trial_floats(t, "q", CELL_KEPT, 1, rows, rows));
    fill_uniform(t, trial_floats(t, "decayed", CELL_KEPT, 1, rows, rows), -0.25f, 0.25f);
    operand *v = trial_floats(t, "v", CELL_KEPT, 1, FV_LANES, FV_LANES);
    fill_normal(t, v);
    fill_normal(t, trial_floats(t, "next", CELL_KEPT, FV_LANES, rows, some_stride(t, rows)));
    fill_normal(t, trial_floats(t, "d", CELL_NAN, 1, FV_LANES, FV_LANES));
    trial_floats(t, "o", update ? CELL_BITS : CELL_KEPT, 1, FV_LANES, FV_LANES);
    trial_floats(t, "nan", CELL_BITS, 1, 1, 1);
    operand *from =
        trial_floats(t, "from", in_place && update ? CELL_NAN : CELL_KEPT, FV_LANES, rows, some_stride(t, rows));
    fill_normal(t, from);
    if (!in_place)
        trial_floats(t, "to", update ? CELL_NAN : CELL_KEPT, FV_LANES, rows, some_stride(t, rows));
    if (special) {
        sprinkle_specials(t, v, 60);
        sprinkle_specials(t, from, 200);
    }
    trial_run(t);
}

static void sweep_trials(checker *c) {
    for (int64_t rows = FV_LANES; rows <= 4 * FV_LANES; rows += FV_LANES)
        for (int kind = 0; kind < 16; kind++)
            sweep_trial(c, rows, kind & 1, kind & 2, kind & 4, kind & 8);
    sweep_trial(c, 128, true, true, false, false);
}

static void sweep_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    const int to = t->size[SIZE_IN_PLACE] ? SWEEP_FROM : SWEEP_TO;
    fv_sweep w = {.rows = t->size[SIZE_ROWS],
                  .from = t->size[SIZE_UPDATE] ? trial_pointer(t, SWEEP_FROM) : NULL,
                  .decay = trial_pointer(t, SWEEP_DECAY),
                  .k = trial_pointer(t, SWEEP_K),
                  .q = trial_pointer(t, SWEEP_Q),
                  .to = trial_pointer(t, to),
                  .o = trial_pointer(t, SWEEP_O),
                  .next = t->size[SIZE_SUM] ? trial_pointer(t, SWEEP_NEXT) : NULL,
                  .decayed = trial_pointer(t, SWEEP_DECAYED),
                  .v = trial_pointer(t, SWEEP_V),
                  .behind = trial_pointer(t, SWEEP_NEXT),
                  .ldfrom = o[SWEEP_FROM].stride,
                  .ldto = o[to].stride,
                  .ldnext = o[SWEEP_NEXT].stride,
                  .scale = t->number,
                  .beta = t->number};
    float *d = trial_pointer(t, SWEEP_D), *nan = trial_pointer(t, SWEEP_NAN);
    memcpy(w.d, d, sizeof w.d);
    kernel->run.sweep_f32(&w);
    memcpy(d, w.d, sizeof w.d);
    *nan = w.nan != 0;
}

static void sweep_verify(const trial *t) {
    const operand *o = t->operand, *to = &o[t->size[SIZE_IN_PLACE] ? SWEEP_FROM : SWEEP_TO];
    const double bound = 64.0 * float_eps() * (double)(t->size[SIZE_ROWS] + 8) * 16;
    bool nan = false, finite = true;
    for (int64_t j = 0; j < FV_LANES; j++) {
        const double d = *float_before(&o[SWEEP_D], 0, j);
        double m = 0.0, y = 0.0;
        for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++) {
            const double s =
                (double)*float_before(&o[SWEEP_FROM], j, i) * (double)*float_before(&o[SWEEP_DECAY], 0, i) +
                d * (double)*float_before(&o[SWEEP_K], 0, i);
            m += (double)*float_before(&o[SWEEP_DECAYED], 0, i) * (double)*float_before(&o[SWEEP_NEXT], j, i);
            y += s * (double)*float_before(&o[SWEEP_Q], 0, i);
            nan = nan || isnan(s);
            finite = finite && fabs(s) < 1e30;
            if (t->size[SIZE_UPDATE] && fabs(s) < 1e30 && !near_double(float_want(to, j, i), s, bound))
                trial_fail(t, "state[%" PRId64 "][%" PRId64 "] is not %.9g", j, i, s);
        }
        const double v = *float_before(&o[SWEEP_V], 0, j), next = v - (t->size[SIZE_SUM] ? m : 0.0);
        if (fabs(v) < 1e30 && !near_double(float_want(&o[SWEEP_D], 0, j), next * (double)t->number, bound))
            trial_fail(t, "d[%" PRId64 "] is not %.9g", j, next * (double)t->number);
        if (t->size[SIZE_UPDATE] && fabs(y) < 1e30 &&
            !near_double(float_want(&o[SWEEP_O], 0, j), y * (double)t->number, bound))
            trial_fail(t, "o[%" PRId64 "] is not %.9g", j, y * (double)t->number);
    }
    const bool told = float_want(&o[SWEEP_NAN], 0, 0) != 0.0f;
    if ((told && finite) || (t->size[SIZE_UPDATE] && nan && !told))
        trial_fail(t, "nan is %d", told);
}

const op_check check_sweep = {sweep_trials, sweep_invoke, sweep_verify};
