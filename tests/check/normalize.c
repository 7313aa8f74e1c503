/* Trials of normalize: both norms, with and without weight and bias, also in place. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_N, SIZE_CENTRE, SIZE_WEIGHT, SIZE_BIAS, SIZE_IN_PLACE }; /* t->size */
enum { OPERAND_X, OPERAND_WEIGHT, OPERAND_BIAS, OPERAND_Y };                    /* t->operand; in place there is no y */

static void normalize_trial(checker *c, int64_t rows, int64_t n, int kind, bool special, int far) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " %s norm%s%s%s%s, times 2^%d", rows, n,
                           kind & 1 ? "layer" : "RMS", kind & 2 ? ", weight" : "", kind & 4 ? ", bias" : "",
                           kind & 8 ? ", in place" : "", special ? ", special values" : "", far);
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_N] = n;
    t->size[SIZE_CENTRE] = kind & 1;
    t->size[SIZE_WEIGHT] = (kind & 2) != 0;
    t->size[SIZE_BIAS] = (kind & 4) != 0;
    t->size[SIZE_IN_PLACE] = (kind & 8) != 0;
    t->number = far ? 0.0f : kind & 1 ? 1e-5f : 1e-6f;
    operand *x = trial_floats(t, "x", kind & 8 ? CELL_BITS : CELL_KEPT, rows, n, some_stride(t, n));
    fill_normal(t, x);
    for (int64_t i = 0; i < rows && !special; i++) /* rows of other sizes, and not about 0 */
        for (int64_t j = 0; j < n; j++)
            *float_before(x, i, j) = ldexpf(*float_before(x, i, j) * (float)(i + 1) + 0.25f * (float)i, far);
    if (special)
        sprinkle_specials(t, x, n);
    fill_normal(t, trial_floats(t, "weight", CELL_KEPT, 1, n, n));
    fill_normal(t, trial_floats(t, "bias", CELL_KEPT, 1, n, n));
    if (!(kind & 8))
        trial_floats(t, "y", CELL_BITS, rows, n, some_stride(t, n));
    trial_run(t);
}

static void normalize_trials(checker *c) {
    for (int64_t n = 1; n <= 3 * FV_LANES + 1; n++)
        for (int kind = 0; kind < 16; kind++)
            normalize_trial(c, 1 + (n + kind) % 3, n, kind, (n + kind) % 5 == 0, 0);
    for (int kind = 0; kind < 16; kind++)
        normalize_trial(c, 5, 576 + kind, kind, false, 0);
    for (int kind = 0; kind < 16; kind++)
        for (int far = -140; far <= 120; far += 20) /* sums of squares leave float32 */
            normalize_trial(c, 2, 8 + 17 * (kind + 140 + far) % 50, kind, false, far);
}

static void normalize_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    const int y = t->size[SIZE_IN_PLACE] ? OPERAND_X : OPERAND_Y;
    const fv_normalize args = {.weight = t->size[SIZE_WEIGHT] ? trial_pointer(t, OPERAND_WEIGHT) : NULL,
                               .bias = t->size[SIZE_BIAS] ? trial_pointer(t, OPERAND_BIAS) : NULL,
                               .eps = t->number,
                               .centre = (int)t->size[SIZE_CENTRE]};
    kernel->run.normalize_f32(t->size[SIZE_ROWS], t->size[SIZE_N], trial_pointer(t, OPERAND_X), o[OPERAND_X].stride,
                              &args, trial_pointer(t, y), o[y].stride);
}

/* A row in float64, and how far float32 may be off: by n/16 + 4 roundings of each sum, and by those of what follows. */
static bool normalize_row(const trial *t, int64_t i) {
    const operand *x = &t->operand[OPERAND_X], *y = &t->operand[t->size[SIZE_IN_PLACE] ? OPERAND_X : OPERAND_Y];
    const int64_t n = t->size[SIZE_N];
    const double steps = (double)n / FV_LANES + 8.0;
    double sum = 0.0, magnitude = 0.0, squares = 0.0;
    for (int64_t j = 0; j < n; j++) {
        sum += (double)*float_before(x, i, j);
        magnitude += fabs((double)*float_before(x, i, j));
    }
    const double mean = t->size[SIZE_CENTRE] ? sum / (double)n : 0.0;
    const double mean_off = t->size[SIZE_CENTRE] ? steps * float_eps() * magnitude / (double)n : 0.0;
    for (int64_t j = 0; j < n; j++)
        squares += ((double)*float_before(x, i, j) - mean) * ((double)*float_before(x, i, j) - mean);
    if (!isfinite(squares))
        return true;
    const double variance = squares / (double)n, r = 1.0 / sqrt(variance + (double)t->number);
    /* d moves with the mean, its square by 2 d times that, and r by half of what the variance does. */
    const double spread = sqrt(variance) + mean_off;
    const double r_off =
        r * r * r * 0.5 * (2 * spread * mean_off + 2 * steps * float_eps() * spread * spread) + 4 * r * float_eps();
    for (int64_t j = 0; j < n; j++) {
        const double d = (double)*float_before(x, i, j) - mean;
        double exact = d * r,
               bound = fabs(d) * r_off + r * (mean_off + float_eps() * fabs(d)) + float_eps() * fabs(exact);
        if (t->size[SIZE_WEIGHT]) {
            const double weight = (double)*float_before(&t->operand[OPERAND_WEIGHT], 0, j);
            exact *= weight;
            bound = bound * fabs(weight) + float_eps() * fabs(exact);
        }
        if (t->size[SIZE_BIAS]) {
            exact += (double)*float_before(&t->operand[OPERAND_BIAS], 0, j);
            bound += float_eps() * fabs(exact);
        }
        const float got = float_want(y, i, j);
        if (!near_double(got, exact, 2 * bound + 0x1p-126)) {
            trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g (bound %.3g)", i, j, (double)got,
                       exact, bound);
            return false;
        }
    }
    return true;
}

static void normalize_verify(const trial *t) {
    for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++)
        if (!normalize_row(t, i))
            return;
}

const op_check check_normalize = {normalize_trials, normalize_invoke, normalize_verify};
