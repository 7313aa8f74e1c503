/* Trials of merge, accumulate and finish: what joins segments and ends a row. */
#include "check.h"

#include <inttypes.h>

static bool same_or_nan(float a, float b) {
    return float_bits(a) == float_bits(b) || (float_is_nan(a) && float_is_nan(b));
}

/* --------------------------------------------------------------------------------------------------------- merge -- */

enum { MERGE_NEW_M, MERGE_NEW_L, MERGE_M, MERGE_L, MERGE_A, MERGE_B };

/* The maximum and sum of a row's keys so far. */
typedef struct partial {
    float m, l;
} partial;

/* Results that softmax can have left behind: no keys, some, a +inf or a NaN among the scores. */
static partial some_partial(rng *r) {
    const float scale = rng_below(r, 4) ? 5.0f : 200.0f, normal = rng_normal(r), sum = rng_uniform(r, 1.0f, 256.0f);
    switch (rng_below(r, 10)) {
    case 0:
    case 1: return (partial){-INFINITY, 0.0f};
    case 2: return (partial){INFINITY, poison()};
    case 3: return (partial){normal, bits_float(0x7f800001)};
    case 4: return (partial){poison(), poison()};
    case 5: return (partial){normal > 0 ? 0.0f : -0.0f, sum};
    default: return (partial){scale * normal, sum};
    }
}

static void merge_trial(checker *c, int64_t rows, bool first) {
    trial *t = trial_begin(c, "rows=%" PRId64 "%s", rows, first ? " into M = -inf, L = 0" : "");
    if (!t)
        return;
    t->size[0] = rows;
    operand *m = trial_floats(t, "m", CELL_KEPT, 1, rows, rows), *l = trial_floats(t, "l", CELL_KEPT, 1, rows, rows);
    operand *M = trial_floats(t, "M", CELL_ZERO, 1, rows, rows), *L = trial_floats(t, "L", CELL_NAN, 1, rows, rows);
    operand *a = trial_floats(t, "a", CELL_NAN, 1, rows, rows), *b = trial_floats(t, "b", CELL_NAN, 1, rows, rows);
    for (int64_t i = 0; i < rows; i++) {
        const partial new = some_partial(&t->rng), old = first ? (partial){-INFINITY, 0.0f} : some_partial(&t->rng);
        *float_before(m, 0, i) = new.m;
        *float_before(l, 0, i) = new.l;
        *float_before(M, 0, i) = old.m;
        *float_before(L, 0, i) = old.l;
        if (float_is_nan(new.m) || float_is_nan(old.m)) /* the maximum of NaN is open; L must be NaN all the same */
            *cell_of(M, 0, i) = *cell_of(a, 0, i) = *cell_of(b, 0, i) = CELL_ANY;
    }
    trial_run(t);
}

static void merge_trials(checker *c) {
    for (int64_t rows = 1; rows <= 2 * c->kernel->mr + 1; rows++)
        for (int i = 0; i < 20; i++)
            merge_trial(c, rows, i % 5 == 0);
    for (int i = 0; i < 50; i++)
        merge_trial(c, 57 + i, i % 5 == 0);
}

static void merge_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.merge_f32(t->size[0], trial_pointer(t, MERGE_NEW_M), trial_pointer(t, MERGE_NEW_L),
                          trial_pointer(t, MERGE_M), trial_pointer(t, MERGE_L), trial_pointer(t, MERGE_A),
                          trial_pointer(t, MERGE_B));
}

static const char *merge_row_wrong(const trial *t, int64_t i) {
    const operand *o = t->operand;
    const float m = *float_before(&o[MERGE_NEW_M], 0, i), l = *float_before(&o[MERGE_NEW_L], 0, i);
    const float old_M = *float_before(&o[MERGE_M], 0, i), old_L = *float_before(&o[MERGE_L], 0, i);
    const float M = float_want(&o[MERGE_M], 0, i), L = float_want(&o[MERGE_L], 0, i);
    const float a = float_want(&o[MERGE_A], 0, i), b = float_want(&o[MERGE_B], 0, i);
    if (float_is_nan(l) || float_is_nan(old_L))
        return float_is_nan(L) ? NULL : "L of a row with NaN is a number";
    if (M != (m > old_M ? m : old_M))
        return "M is not the maximum";
    const float base = M == -INFINITY ? 0.0f : M;
    if (!same_or_nan(a, scalar_exp(old_M - base)) || !same_or_nan(b, scalar_exp(m - base)))
        return "a or b is not exp(M - M'), exp(m - M')";
    if (!same_or_nan(L, fmaf(old_L, a, l * b)))
        return "L is not fma(L, a, l * b)";
    const double exact = (double)old_L * exp((double)old_M - base) + (double)l * exp((double)m - base);
    const double spread = fabs((double)old_M - m);
    return near_double(L, exact, (isfinite(spread) && spread < 200.0 ? spread + 8.0 : 8.0) * float_eps() * exact)
               ? NULL
               : "L is far from float64's";
}

static void merge_verify(const trial *t) {
    for (int64_t i = 0; i < t->size[0]; i++) {
        const char *wrong = merge_row_wrong(t, i);
        if (wrong) {
            trial_fail(t, "row %" PRId64 ": %s", i, wrong);
            return;
        }
    }
}

const op_check check_merge = {merge_trials, merge_invoke, merge_verify};

/* ---------------------------------------------------------------------------------------------------- accumulate -- */

enum { ACCUMULATE_NEW, ACCUMULATE_A, ACCUMULATE_B, ACCUMULATE_O };

static void accumulate_trial(checker *c, int64_t rows, int64_t n, bool special) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 "%s", rows, n, special ? " special values" : "");
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    operand *o = trial_floats(t, "o", CELL_KEPT, rows, n, some_stride(t, n));
    operand *a = trial_floats(t, "a", CELL_KEPT, 1, rows, rows), *b = trial_floats(t, "b", CELL_KEPT, 1, rows, rows);
    operand *O = trial_floats(t, "O", CELL_NAN, rows, n, some_stride(t, n));
    fill_normal(t, o);
    fill_normal(t, O);
    fill_uniform(t, a, 0.0f, 1.0f);
    fill_uniform(t, b, 0.0f, 1.0f);
    if (special) {
        sprinkle_specials(t, o, 5);
        sprinkle_specials(t, O, 5);
        *float_before(a, 0, rng_below(&t->rng, rows)) = 0.0f;
        *float_before(b, 0, rng_below(&t->rng, rows)) = 0.0f;
    }
    trial_run(t);
}

static void accumulate_trials(checker *c) {
    for (int64_t n = 1; n <= 2 * c->kernel->nr + 1; n++)
        for (int64_t rows = 1; rows <= 3; rows++) {
            accumulate_trial(c, rows, n, false);
            accumulate_trial(c, rows, n, true);
        }
    for (int64_t n = 63; n <= 130; n++)
        accumulate_trial(c, 5 + n % 30, n, n % 2 == 0);
}

static void accumulate_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.accumulate_f32(t->size[0], t->size[1], trial_pointer(t, ACCUMULATE_NEW),
                               t->operand[ACCUMULATE_NEW].stride, trial_pointer(t, ACCUMULATE_A),
                               trial_pointer(t, ACCUMULATE_B), trial_pointer(t, ACCUMULATE_O),
                               t->operand[ACCUMULATE_O].stride);
}

static void accumulate_verify(const trial *t) {
    const operand *op = t->operand;
    for (int64_t i = 0; i < t->size[0]; i++)
        for (int64_t j = 0; j < t->size[1]; j++) {
            const float o = *float_before(&op[ACCUMULATE_NEW], i, j), O = *float_before(&op[ACCUMULATE_O], i, j);
            const float a = *float_before(&op[ACCUMULATE_A], 0, i), b = *float_before(&op[ACCUMULATE_B], 0, i);
            const float got = float_want(&op[ACCUMULATE_O], i, j);
            const double magnitude = fabs((double)O * a) + fabs((double)o * b);
            if (!same_or_nan(got, fmaf(O, a, o * b)) ||
                (magnitude < 0x1p127 &&
                 !near_double(got, (double)O * a + (double)o * b, 3.0 * (float_eps() * magnitude + 0x1p-149)))) {
                trial_fail(t, "O[%" PRId64 "][%" PRId64 "] is %.9g, fma(O, a, o * b) is %.9g", i, j, (double)got,
                           (double)fmaf(O, a, o * b));
                return;
            }
        }
}

const op_check check_accumulate = {accumulate_trials, accumulate_invoke, accumulate_verify};

/* -------------------------------------------------------------------------------------------------------- finish -- */

enum { FINISH_O, FINISH_M, FINISH_L, FINISH_OUT, FINISH_LSE };

static void finish_trial(checker *c, int64_t rows, int64_t n, bool with_lse) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 "%s", rows, n, with_lse ? " with lse" : "");
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    t->size[2] = with_lse;
    operand *O = trial_floats(t, "O", CELL_KEPT, rows, n, some_stride(t, n));
    operand *M = trial_floats(t, "M", CELL_KEPT, 1, rows, rows), *L = trial_floats(t, "L", CELL_KEPT, 1, rows, rows);
    trial_floats(t, "out", CELL_BITS, rows, n, some_stride(t, n));
    if (with_lse)
        trial_floats(t, "lse", CELL_BITS, rows, 1, 1 + rng_below(&t->rng, 3));
    fill_normal(t, O);
    sprinkle_specials(t, O, 6);
    for (int64_t i = 0; i < rows; i++) {
        /* Sums from one key up to 2^31 of them, 1 exactly (log 0) among them; or what some_partial() has. */
        partial row = some_partial(&t->rng);
        if (rng_below(&t->rng, 4) == 0)
            row.l = exp2f(rng_uniform(&t->rng, 0.0f, 31.0f));
        if (rng_below(&t->rng, 8) == 0)
            row.l = 1.0f;
        *float_before(M, 0, i) = row.m;
        *float_before(L, 0, i) = row.l;
        if (row.l == 0.0f) /* a row without keys: zeros of either sign */
            for (int64_t j = 0; j < n; j++)
                *float_before(O, i, j) = rng_below(&t->rng, 2) ? 0.0f : -0.0f;
    }
    trial_run(t);
}

static void finish_trials(checker *c) {
    for (int64_t n = 1; n <= 2 * c->kernel->nr + 1; n++)
        for (int64_t rows = 1; rows <= 3; rows++) {
            finish_trial(c, rows, n, false);
            finish_trial(c, rows, n, true);
        }
    for (int64_t rows = 1; rows <= 2 * c->kernel->nr + 1; rows++) /* lse goes by rows */
        for (int i = 0; i < 4; i++)
            finish_trial(c, rows, 1 + i, true);
    for (int i = 0; i < 20; i++)
        finish_trial(c, 300 + i, 1, true); /* many values of log */
    for (int64_t n = 63; n <= 130; n++)
        finish_trial(c, 5 + n % 30, n, n % 2 == 0);
}

static void finish_invoke(const fv_kernel *kernel, trial *t) {
    const bool with_lse = t->size[2];
    kernel->run.finish_f32(t->size[0], t->size[1], trial_pointer(t, FINISH_O), t->operand[FINISH_O].stride,
                           trial_pointer(t, FINISH_M), trial_pointer(t, FINISH_L), trial_pointer(t, FINISH_OUT),
                           t->operand[FINISH_OUT].stride, with_lse ? trial_pointer(t, FINISH_LSE) : NULL,
                           with_lse ? t->operand[FINISH_LSE].stride : 0);
}

/* NaN has one pattern in outputs, and -0 none. */
static float canonical(float x) { return float_is_nan(x) ? bits_float(CANONICAL_NAN) : x == 0.0f ? 0.0f : x; }

static void finish_verify(const trial *t) {
    const operand *op = t->operand;
    for (int64_t i = 0; i < t->size[0]; i++) {
        const float M = *float_before(&op[FINISH_M], 0, i), L = *float_before(&op[FINISH_L], 0, i);
        const float R = L == 0.0f ? 0.0f : 1.0f / L;
        for (int64_t j = 0; j < t->size[1]; j++) {
            const float O = *float_before(&op[FINISH_O], i, j), got = float_want(&op[FINISH_OUT], i, j);
            const double exact = L == 0.0f ? 0.0 : (double)O / L;
            if (float_bits(got) != float_bits(canonical(O * R)) ||
                !near_double(got, exact, 3.0 * (float_eps() * fabs(exact) + 0x1p-149))) {
                trial_fail(t, "out[%" PRId64 "][%" PRId64 "] is %.9g (0x%08" PRIx32 "), O * R is %.9g", i, j,
                           (double)got, float_bits(got), (double)canonical(O * R));
                return;
            }
        }
        if (!t->size[2])
            continue;
        const float lse = float_want(&op[FINISH_LSE], i, 0);
        const double exact = L == 0.0f ? -INFINITY : (double)M + log((double)L);
        /* log to within 1 ulp of float, then the rounding of the sum. */
        const double bound = 4.0 * float_eps() * (fabs((double)M) + fabs(log((double)L)));
        if (!near_double(lse, exact, bound) || float_bits(lse) != float_bits(canonical(lse))) {
            trial_fail(t, "lse[%" PRId64 "] is %.9g (0x%08" PRIx32 "), float64 gives %.17g", i, (double)lse,
                       float_bits(lse), exact);
            return;
        }
    }
}

const op_check check_finish = {finish_trials, finish_invoke, finish_verify};
