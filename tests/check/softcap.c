/* Trials of softcap. test-tanh proves its tanh. */
#include "check.h"

#include <inttypes.h>

static void softcap_trial(checker *c, int64_t rows, int64_t n, float factor, float cap, float most, bool special) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " factor=%g cap=%g to %g%s", rows, n, (double)factor,
                           (double)cap, (double)most, special ? ", special values" : "");
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    t->number = factor;
    t->c = cap;
    operand *s = trial_floats(t, "s", CELL_NAN, rows, n, some_stride(t, n));
    fill_uniform(t, s, -most / factor, most / factor);
    if (special)
        sprinkle_specials(t, s, 3);
    trial_run(t);
}

static void softcap_trials(checker *c) {
    static const float factors[] = {1.0f, 0.02f, 0.0282842712f, 0x1p-60f, 3.0f}, caps[] = {1.0f, 50.0f, 30.0f, 0x1p60f};
    static const float most[] = {12.0f, 0.89f, 0.8f}; /* the first interval of tanh ends at 0.875 */
    for (int64_t n = 0; n <= FV_SEGMENT; n += FV_LANES)
        for (int i = 0; i < 60; i++)
            softcap_trial(c, i % 4, n, factors[i % 5], caps[i % 4], most[i % 3], i % 2);
}

static void softcap_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.softcap_f32(t->size[0], t->size[1], t->number, t->c, trial_pointer(t, 0), t->operand[0].stride);
}

static void softcap_verify(const trial *t) {
    const operand *s = &t->operand[0];
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->cols; j++) {
            const float u = t->number * *float_before(s, i, j), got = float_want(s, i, j);
            const double exact = tanh((double)u), off = fmin(0x1p-24, 0x1p-22 * fabs(exact)) + 0x1p-149;
            const double bound = (double)t->c * (off + float_eps() * (fabs(exact) + off)) + 0x1p-149;
            if (!near_double(got, (double)t->c * exact, bound)) {
                trial_fail(t, "s[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g of %.9g", i, j, (double)got,
                           (double)t->c * exact, (double)*float_before(s, i, j));
                return;
            }
        }
}

const op_check check_softcap = {softcap_trials, softcap_invoke, softcap_verify};
