/* Trials of delta, scan and convolve. */
#include "check.h"

#include <inttypes.h>

enum { COLUMNS = FV_STATE_COLUMNS };

/* ------------------------------------------------------------------------------------------------------- delta -- */

enum { SIZE_TOKENS, SIZE_ROWS, SIZE_QUERIES, SIZE_CORRECT, SIZE_SKIP, SIZE_IN_PLACE }; /* t->size of delta */
enum {
    DELTA_K,
    DELTA_Q,
    DELTA_DECAY,
    DELTA_DECAYED,
    DELTA_V,
    DELTA_BETA,
    DELTA_SKIP,
    DELTA_O,
    DELTA_FROM,
    DELTA_TILE,
    DELTA_TO
};

static void delta_trial(checker *c, int64_t tokens, int64_t rows, int64_t queries, int kind, bool special) {
    trial *t = trial_begin(c, "tokens=%" PRId64 " rows=%" PRId64 " queries=%" PRId64 "%s%s%s%s", tokens, rows, queries,
                           kind & 1 ? ", delta rule" : "", kind & 2 ? ", skip" : "", kind & 4 ? ", in place" : "",
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_TOKENS] = tokens;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_QUERIES] = queries;
    t->size[SIZE_CORRECT] = kind & 1;
    t->size[SIZE_SKIP] = (kind & 2) != 0;
    t->size[SIZE_IN_PLACE] = (kind & 4) != 0;
    t->number = 0.125f;
    operand *k = trial_floats(t, "k", CELL_KEPT, tokens, rows, some_stride(t, rows));
    operand *q = trial_floats(t, "q", CELL_KEPT, tokens * queries, rows, some_stride(t, rows));
    operand *decay = trial_floats(t, "decay", CELL_KEPT, tokens, rows, some_stride(t, rows));
    operand *decayed = trial_floats(t, "decayed", CELL_KEPT, tokens, rows, some_stride(t, rows));
    operand *v = trial_floats(t, "v", CELL_KEPT, tokens, COLUMNS, some_stride(t, COLUMNS));
    fill_normal(t, v);
    fill_normal(t, q);
    fill_uniform(t, k, -0.25f, 0.25f);
    fill_uniform(t, decay, 0.5f, 1.0f);
    fill_uniform(t, decayed, -0.25f, 0.25f);
    fill_uniform(t, trial_floats(t, "beta", CELL_KEPT, 1, tokens, tokens), 0.0f, 2.0f);
    fill_normal(t, trial_floats(t, "skip", CELL_KEPT, 1, COLUMNS, COLUMNS));
    trial_floats(t, "o", CELL_BITS, tokens * queries, COLUMNS, some_stride(t, COLUMNS));
    operand *from = trial_floats(t, "from", kind & 4 ? CELL_BITS : CELL_KEPT, rows, COLUMNS, some_stride(t, COLUMNS));
    fill_normal(t, from);
    trial_floats(t, "tile", CELL_ANY, rows, COLUMNS, COLUMNS);
    if (!(kind & 4))
        trial_floats(t, "to", CELL_BITS, rows, COLUMNS, some_stride(t, COLUMNS));
    if (special) {
        sprinkle_specials(t, v, 60);
        sprinkle_specials(t, from, 90);
    }
    trial_run(t);
}

static void delta_trials(checker *c) {
    for (int64_t tokens = 1; tokens <= 4; tokens++)
        for (int64_t rows = 1; rows <= 9; rows++)
            for (int kind = 0; kind < 8; kind++)
                delta_trial(c, tokens, rows, 1 + (rows + kind) % 3, kind, (tokens + kind) % 3 == 0);
    for (int kind = 0; kind < 8; kind++)
        delta_trial(c, 9, 128, 1, kind, false);
}

static void delta_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    const int to = t->size[SIZE_IN_PLACE] ? DELTA_FROM : DELTA_TO;
    kernel->run.delta_f32(&(fv_delta){.tokens = t->size[SIZE_TOKENS],
                                      .rows = t->size[SIZE_ROWS],
                                      .queries = t->size[SIZE_QUERIES],
                                      .k = trial_pointer(t, DELTA_K),
                                      .q = trial_pointer(t, DELTA_Q),
                                      .decay = trial_pointer(t, DELTA_DECAY),
                                      .decayed = trial_pointer(t, DELTA_DECAYED),
                                      .v = trial_pointer(t, DELTA_V),
                                      .beta = trial_pointer(t, DELTA_BETA),
                                      .skip = t->size[SIZE_SKIP] ? trial_pointer(t, DELTA_SKIP) : NULL,
                                      .o = trial_pointer(t, DELTA_O),
                                      .from = trial_pointer(t, DELTA_FROM),
                                      .tile = trial_pointer(t, DELTA_TILE),
                                      .to = trial_pointer(t, to),
                                      .ldk = o[DELTA_K].stride,
                                      .ldq = o[DELTA_Q].stride,
                                      .lddecay = o[DELTA_DECAY].stride,
                                      .lddecayed = o[DELTA_DECAYED].stride,
                                      .ldv = o[DELTA_V].stride,
                                      .ldo = o[DELTA_O].stride,
                                      .q_step = t->size[SIZE_TOKENS] * o[DELTA_Q].stride,
                                      .o_step = t->size[SIZE_TOKENS] * o[DELTA_O].stride,
                                      .ldfrom = o[DELTA_FROM].stride,
                                      .ldto = o[to].stride,
                                      .scale = t->number,
                                      .correct = (int)t->size[SIZE_CORRECT]});
}

/* One column in float64. Numbers are about 1 and chains have rows terms, so that sums are off by some eps each. */
static bool delta_column(const trial *t, int64_t j) {
    enum { MOST_ROWS = 128 };
    const operand *o = t->operand;
    const int64_t tokens = t->size[SIZE_TOKENS], rows = t->size[SIZE_ROWS];
    double s[MOST_ROWS], largest = 1.0;
    for (int64_t i = 0; i < rows; i++)
        s[i] = *float_before(&o[DELTA_FROM], i, j);
    for (int64_t n = 0; n < tokens; n++) {
        const double v = *float_before(&o[DELTA_V], n, j);
        double m = 0.0;
        for (int64_t i = 0; i < rows; i++)
            m += s[i] * (double)*float_before(&o[DELTA_DECAYED], n, i);
        const double d = (double)*float_before(&o[DELTA_BETA], 0, n) * (t->size[SIZE_CORRECT] ? v - m : v);
        for (int64_t i = 0; i < rows; i++) {
            s[i] = s[i] * (double)*float_before(&o[DELTA_DECAY], n, i) + d * (double)*float_before(&o[DELTA_K], n, i);
            largest = fmax(largest, fabs(s[i]));
        }
        for (int64_t query = 0; query < t->size[SIZE_QUERIES]; query++) {
            double y = 0.0;
            for (int64_t i = 0; i < rows; i++)
                y += s[i] * (double)*float_before(&o[DELTA_Q], query * tokens + n, i);
            y = y * (double)t->number + (t->size[SIZE_SKIP] ? v * (double)*float_before(&o[DELTA_SKIP], 0, j) : 0.0);
            const float got = float_want(&o[DELTA_O], query * tokens + n, j);
            if (largest < 1e30 && !near_double(got, y, 64.0 * float_eps() * largest * (double)(rows + 8))) {
                trial_fail(t, "o[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g", n, j, (double)got, y);
                return false;
            }
        }
    }
    const operand *to = &o[t->size[SIZE_IN_PLACE] ? DELTA_FROM : DELTA_TO];
    for (int64_t i = 0; i < rows; i++)
        if (largest < 1e30 &&
            !near_double(float_want(to, i, j), s[i], 64.0 * float_eps() * largest * (double)(rows + 8))) {
            trial_fail(t, "state[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g", i, j,
                       (double)float_want(to, i, j), s[i]);
            return false;
        }
    return true;
}

static void delta_verify(const trial *t) {
    for (int64_t j = 0; j < COLUMNS; j++)
        if (!delta_column(t, j))
            return;
}

const op_check check_delta = {delta_trials, delta_invoke, delta_verify};

/* -------------------------------------------------------------------------------------------------------- scan -- */

enum { SCAN_B, SCAN_C, SCAN_X, SCAN_DT, SCAN_A, SCAN_SKIP, SCAN_O, SCAN_STATE };

static void scan_trial(checker *c, int64_t tokens, int64_t rows, bool skip, bool special) {
    trial *t = trial_begin(c, "tokens=%" PRId64 " rows=%" PRId64 "%s%s", tokens, rows, skip ? ", skip" : "",
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_TOKENS] = tokens;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_SKIP] = skip;
    fill_normal(t, trial_floats(t, "b", CELL_KEPT, tokens, rows, some_stride(t, rows)));
    fill_normal(t, trial_floats(t, "c", CELL_KEPT, tokens, rows, some_stride(t, rows)));
    operand *x = trial_floats(t, "x", CELL_KEPT, tokens, COLUMNS, some_stride(t, COLUMNS));
    operand *dt = trial_floats(t, "dt", CELL_KEPT, tokens, COLUMNS, some_stride(t, COLUMNS));
    operand *a = trial_floats(t, "a", CELL_KEPT, rows, COLUMNS, COLUMNS);
    fill_normal(t, x);
    fill_uniform(t, dt, 0.0f, 1.0f);
    fill_uniform(t, a, -4.0f, -0.5f);
    fill_normal(t, trial_floats(t, "skip", CELL_KEPT, 1, COLUMNS, COLUMNS));
    trial_floats(t, "o", CELL_BITS, tokens, COLUMNS, some_stride(t, COLUMNS));
    fill_normal(t, trial_floats(t, "state", CELL_NAN, rows, COLUMNS, COLUMNS));
    if (special) {
        sprinkle_specials(t, x, 60);
        sprinkle_specials(t, dt, 60);
        sprinkle_specials(t, a, 60);
    }
    trial_run(t);
}

static void scan_trials(checker *c) {
    for (int64_t tokens = 0; tokens <= 4; tokens++)
        for (int64_t rows = 1; rows <= 9; rows++)
            for (int kind = 0; kind < 4; kind++)
                scan_trial(c, tokens, rows, kind & 1, kind & 2);
    scan_trial(c, 20, 16, true, false);
}

static void scan_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    kernel->run.scan_f32(&(fv_scan){.tokens = t->size[SIZE_TOKENS],
                                    .rows = t->size[SIZE_ROWS],
                                    .b = trial_pointer(t, SCAN_B),
                                    .c = trial_pointer(t, SCAN_C),
                                    .x = trial_pointer(t, SCAN_X),
                                    .dt = trial_pointer(t, SCAN_DT),
                                    .a = trial_pointer(t, SCAN_A),
                                    .skip = t->size[SIZE_SKIP] ? trial_pointer(t, SCAN_SKIP) : NULL,
                                    .o = trial_pointer(t, SCAN_O),
                                    .state = trial_pointer(t, SCAN_STATE),
                                    .ldb = o[SCAN_B].stride,
                                    .ldc = o[SCAN_C].stride,
                                    .ldx = o[SCAN_X].stride,
                                    .lddt = o[SCAN_DT].stride,
                                    .ldo = o[SCAN_O].stride});
}

static void scan_verify(const trial *t) {
    const operand *o = t->operand;
    for (int64_t j = 0; j < COLUMNS; j++)
        for (int64_t n = 0; n < t->size[SIZE_TOKENS]; n++) { /* from the first token on each time: few are tried */
            double y = 0.0, largest = 1.0;
            for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++) {
                double s = *float_before(&o[SCAN_STATE], i, j);
                for (int64_t p = 0; p <= n; p++) {
                    const double dt = *float_before(&o[SCAN_DT], p, j), x = *float_before(&o[SCAN_X], p, j);
                    s = s * exp(dt * (double)*float_before(&o[SCAN_A], i, j)) +
                        dt * x * (double)*float_before(&o[SCAN_B], p, i);
                }
                y += s * (double)*float_before(&o[SCAN_C], n, i);
                largest = fmax(largest, fabs(s));
            }
            const double x = *float_before(&o[SCAN_X], n, j);
            y += t->size[SIZE_SKIP] ? x * (double)*float_before(&o[SCAN_SKIP], 0, j) : 0.0;
            const float got = float_want(&o[SCAN_O], n, j);
            if (fabs(y) < 1e30 && largest < 1e30 &&
                !near_double(got, y, 256.0 * float_eps() * (largest + fabs(x)) * (double)(t->size[SIZE_ROWS] + n))) {
                trial_fail(t, "o[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g", n, j, (double)got, y);
                return;
            }
        }
}

const op_check check_scan = {scan_trials, scan_invoke, scan_verify};

/* ---------------------------------------------------------------------------------------------------- convolve -- */

enum { SIZE_TAPS = SIZE_ROWS, SIZE_N, SIZE_BIAS, SIZE_SILU, SIZE_BY_CHANNELS }; /* t->size, SIZE_TOKENS first */
enum { CONVOLVE_X, CONVOLVE_WEIGHT, CONVOLVE_BIAS, CONVOLVE_Y };

static void convolve_trial(checker *c, int64_t tokens, int64_t taps, int64_t n, int kind, bool special) {
    const bool by_channels = kind & 4;
    trial *t = trial_begin(c, "tokens=%" PRId64 " taps=%" PRId64 " n=%" PRId64 "%s%s%s%s", tokens, taps, n,
                           kind & 1 ? ", bias" : "", kind & 2 ? ", SiLU" : "", by_channels ? ", by channels" : "",
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_TOKENS] = tokens;
    t->size[SIZE_TAPS] = taps;
    t->size[SIZE_N] = n;
    t->size[SIZE_BIAS] = kind & 1;
    t->size[SIZE_SILU] = (kind & 2) != 0;
    t->size[SIZE_BY_CHANNELS] = by_channels;
    const int64_t rows[] = {tokens + taps - 1, n}, weights[] = {taps, n};
    const int64_t width = rows[!by_channels], each = weights[!by_channels];
    operand *x = trial_floats(t, "x", CELL_KEPT, rows[by_channels], width, some_stride(t, width));
    fill_normal(t, x);
    if (special)
        sprinkle_specials(t, x, 20);
    fill_normal(t, trial_floats(t, "weight", CELL_KEPT, weights[by_channels], each, some_stride(t, each)));
    fill_normal(t, trial_floats(t, "bias", CELL_KEPT, 1, n, n));
    trial_floats(t, "y", CELL_BITS, tokens, n, some_stride(t, n));
    trial_run(t);
}

static void convolve_trials(checker *c) {
    for (int64_t n = 1; n <= 2 * c->kernel->nr + 1; n++)
        for (int kind = 0; kind < 4; kind++)
            convolve_trial(c, n % 4, 1 + (n + kind) % 5, n, kind, (n + kind) % 3 == 0);
    convolve_trial(c, 20, 4, 70, 3, false);
    for (int kind = 4; kind < 8; kind++)
        for (int64_t n = FV_LANES; n <= 3 * FV_LANES; n += FV_LANES)
            convolve_trial(c, 1 + (n / FV_LANES + kind) % 5, 4, n, kind, kind == 5);
}

static void convolve_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    kernel->run.convolve_f32(&(fv_convolve){.tokens = t->size[SIZE_TOKENS],
                                            .taps = t->size[SIZE_TAPS],
                                            .n = t->size[SIZE_N],
                                            .x = trial_pointer(t, CONVOLVE_X),
                                            .weight = trial_pointer(t, CONVOLVE_WEIGHT),
                                            .bias = t->size[SIZE_BIAS] ? trial_pointer(t, CONVOLVE_BIAS) : NULL,
                                            .y = trial_pointer(t, CONVOLVE_Y),
                                            .ldx = o[CONVOLVE_X].stride,
                                            .ldweight = o[CONVOLVE_WEIGHT].stride,
                                            .ldy = o[CONVOLVE_Y].stride,
                                            .silu = (int)t->size[SIZE_SILU],
                                            .by_channels = (int)t->size[SIZE_BY_CHANNELS]});
}

static double convolve_term(const trial *t, int64_t n, int64_t w, int64_t j) {
    const operand *x = &t->operand[CONVOLVE_X], *weight = &t->operand[CONVOLVE_WEIGHT];
    return t->size[SIZE_BY_CHANNELS] ? (double)*float_before(x, j, n + w) * (double)*float_before(weight, j, w)
                                     : (double)*float_before(x, n + w, j) * (double)*float_before(weight, w, j);
}

static void convolve_verify(const trial *t) {
    const operand *o = t->operand;
    for (int64_t n = 0; n < t->size[SIZE_TOKENS]; n++)
        for (int64_t j = 0; j < t->size[SIZE_N]; j++) {
            double y = t->size[SIZE_BIAS] ? (double)*float_before(&o[CONVOLVE_BIAS], 0, j) : 0.0, sum = fabs(y);
            for (int64_t w = 0; w < t->size[SIZE_TAPS]; w++) {
                const double term = convolve_term(t, n, w, j);
                y += term;
                sum += fabs(term);
            }
            if (t->size[SIZE_SILU])
                y /= 1.0 + exp(-y);
            const float got = float_want(&o[CONVOLVE_Y], n, j);
            if (sum < 1e30 && !near_double(got, y, 16.0 * float_eps() * sum + 0x1p-149)) {
                trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g", n, j, (double)got, y);
                return;
            }
        }
}

const op_check check_convolve = {convolve_trials, convolve_invoke, convolve_verify};
