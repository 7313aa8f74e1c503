/* Trials of what works on plain arrays: scale, copy, pack, finite, exp. */
#include "check.h"

#include <float.h>
#include <inttypes.h>

/* ---------------------------------------------------------------------------------------------------------- norm -- */

/* An option of scale and pack: adds the operand, or none in every third trial. */
static void add_norm(trial *t) {
    static const float before[] = {0.0f, 0x1p-149f, 1.0f, 1e4f, INFINITY};
    if (rng_below(&t->rng, 3) == 0)
        return;
    operand *norm = trial_floats(t, "norm", CELL_BITS, 1, 1, 1);
    *float_before(norm, 0, 0) = before[rng_below(&t->rng, 5)];
}

static float *norm_pointer(const trial *t, int place) { return place < t->operands ? trial_pointer(t, place) : NULL; }

/* Against the largest of sums of squares in double, each of cols terms. */
static void verify_norm(const trial *t, int place, double want, int64_t cols) {
    if (place >= t->operands)
        return;
    const operand *norm = &t->operand[place];
    const float got = float_want(norm, 0, 0);
    want = fmax(want, (double)*float_before(norm, 0, 0));
    const bool right = want < 0x1p128
                           ? near_double(got, want, (double)cols * float_eps() * want + (double)cols * 0x1p-126)
                           : got == INFINITY;
    if (!right)
        trial_fail(t, "norm is %.9g instead of %.9g", (double)got, want);
}

/* --------------------------------------------------------------------------------------------------------- scale -- */

enum { SCALE_NORM = 2 };

static void scale_trial(checker *c, int64_t rows, int64_t n, float factor, bool special) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " factor=%g%s", rows, n, (double)factor,
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    t->number = factor;
    operand *x = trial_floats(t, "x", CELL_KEPT, rows, n, some_stride(t, n));
    trial_floats(t, "y", CELL_NAN, rows, n, some_stride(t, n));
    fill_normal(t, x);
    if (special)
        sprinkle_specials(t, x, 3);
    add_norm(t);
    trial_run(t);
}

static void scale_trials(checker *c) {
    static const float factors[] = {0.125f, 0.1f, -3.0f, 0.0f, 1e-38f, 3e38f};
    for (int64_t n = 1; n <= 2 * c->kernel->nr + 1; n++)
        for (int64_t rows = 1; rows <= 3; rows++) {
            scale_trial(c, rows, n, factors[n % 6], false);
            scale_trial(c, rows, n, factors[(n + rows) % 6], true);
        }
    for (int64_t n = 63; n <= 130; n++)
        scale_trial(c, 5 + n % 30, n, factors[n % 6], n % 2 == 0);
}

static void scale_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.scale_f32(t->size[0], t->size[1], t->number, trial_pointer(t, 0), t->operand[0].stride,
                          trial_pointer(t, 1), t->operand[1].stride, norm_pointer(t, SCALE_NORM));
}

static void scale_verify(const trial *t) {
    const operand *x = &t->operand[0], *y = &t->operand[1];
    double norm = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double squares = 0.0;
        for (int64_t j = 0; j < x->cols; j++) {
            const float want = (float)((double)t->number * *float_before(x, i, j)); /* exact before its one rounding */
            if (float_bits(float_want(y, i, j)) != float_bits(want) &&
                !(float_is_nan(want) && float_is_nan(float_want(y, i, j)))) {
                trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is %.9g instead of %.9g", i, j, (double)float_want(y, i, j),
                           (double)want);
                return;
            }
            squares += (double)want * want;
        }
        norm = fmax(norm, squares); /* leaves NaN out */
    }
    verify_norm(t, SCALE_NORM, norm, x->cols);
}

const op_check check_scale = {scale_trials, scale_invoke, scale_verify};

/* ---------------------------------------------------------------------------------------------------------- copy -- */

/* alike: rows of y are as far apart as those of x, which a copy may be tempted to take for one row. */
static void copy_trial(checker *c, int64_t rows, int64_t n, bool alike) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 "%s", rows, n, alike ? ", strides alike" : "");
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    const int64_t stride = some_stride(t, n);
    operand *x = trial_floats(t, "x", CELL_KEPT, rows, n, stride);
    trial_floats(t, "y", CELL_BITS, rows, n, alike ? stride : some_stride(t, n));
    for (int64_t i = 0; i < rows; i++) /* any bits: signalling NaN and subnormals among them */
        for (int64_t j = 0; j < n; j++)
            *float_before(x, i, j) = bits_float((uint32_t)rng_u64(&t->rng));
    trial_run(t);
}

static void copy_trials(checker *c) {
    for (int64_t n = 1; n <= 130; n += n < 2 * c->kernel->nr + 2 ? 1 : 7) {
        copy_trial(c, 1 + n % 5, n, false);
        copy_trial(c, 2 + n % 3, n, true);
    }
}

static void copy_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.copy_f32(t->size[0], t->size[1], trial_pointer(t, 0), t->operand[0].stride, trial_pointer(t, 1),
                         t->operand[1].stride);
}

static void copy_verify(const trial *t) {
    const operand *x = &t->operand[0], *y = &t->operand[1];
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++)
            if (float_bits(float_want(y, i, j)) != float_bits(*float_before(x, i, j))) {
                trial_fail(t, "y[%" PRId64 "][%" PRId64 "] has other bits than x", i, j);
                return;
            }
}

const op_check check_copy = {copy_trials, copy_invoke, copy_verify};

/* ---------------------------------------------------------------------------------------------------------- pack -- */

enum { PACK_KEYS, PACK_CHANNELS, PACK_WIDTH };
enum { PACK_K, PACK_PANEL, PACK_NORM };

static int64_t padded(int64_t keys) { return (keys + FV_LANES - 1) / FV_LANES * FV_LANES; }

static void pack_trial(checker *c, int64_t keys, int64_t channels, int64_t width) {
    trial *t = trial_begin(c, "keys=%" PRId64 " channels=%" PRId64 " nr=%" PRId64, keys, channels, width);
    if (!t)
        return;
    t->size[PACK_KEYS] = keys;
    t->size[PACK_CHANNELS] = channels;
    t->size[PACK_WIDTH] = width;
    operand *k = trial_floats(t, "k", CELL_KEPT, keys, channels, some_stride(t, channels));
    trial_floats(t, "panel", CELL_BITS, channels, padded(keys), width);
    for (int64_t i = 0; i < keys; i++) /* any pattern: packing changes no bit, of NaN neither */
        for (int64_t j = 0; j < channels; j++)
            *float_before(k, i, j) = rng_pattern(&t->rng);
    add_norm(t);
    if (t->operands > PACK_NORM) { /* such patterns have no norms; two out of three keys here */
        fill_normal(t, k);
        for (int64_t i = rng_below(&t->rng, 3); i < keys; i += 3)
            *float_before(k, i, rng_below(&t->rng, channels)) = i % 2 ? poison() : 0x1p-70f * rng_normal(&t->rng);
    }
    trial_run(t);
}

static void pack_trials(checker *c) {
    static const int64_t more[] = {40, 64, 80, 128, 3};
    int64_t channels[EDGE_SIZES];
    const int count = edge_sizes(c->kernel->nr, channels);
    for (int64_t width = FV_LANES; width <= 6 * FV_LANES; width += FV_LANES)
        for (int64_t keys = 1; keys <= width; keys++) {
            pack_trial(c, keys, channels[keys % count], width);
            pack_trial(c, keys, more[keys % 5], width);
        }
    for (int64_t n = 1; n <= 2 * FV_LANES + 1; n++)
        for (int64_t keys = 1; keys <= FV_LANES; keys++)
            pack_trial(c, keys, n, FV_LANES * (1 + n % 2));
}

static void pack_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.pack(t->size[PACK_KEYS], t->size[PACK_CHANNELS], trial_pointer(t, PACK_K), t->operand[PACK_K].stride, 0,
                     trial_pointer(t, PACK_PANEL), t->size[PACK_WIDTH], NULL, norm_pointer(t, PACK_NORM));
}

static void pack_verify(const trial *t) {
    const operand *k = &t->operand[PACK_K], *panel = &t->operand[PACK_PANEL];
    for (int64_t c = 0; c < panel->rows; c++)
        for (int64_t i = 0; i < panel->cols; i++) {
            const uint32_t want = i < k->rows ? float_bits(*float_before(k, i, c)) : 0;
            if (float_bits(float_want(panel, c, i)) != want) {
                trial_fail(t,
                           "panel: channel %" PRId64 " of key %" PRId64 " is 0x%08" PRIx32 " instead of 0x%08" PRIx32,
                           c, i, float_bits(float_want(panel, c, i)), want);
                return;
            }
        }
    double norm = 0.0;
    for (int64_t i = 0; i < k->rows; i++) {
        double squares = 0.0;
        for (int64_t c = 0; c < k->cols; c++)
            squares += (double)*float_before(k, i, c) * *float_before(k, i, c);
        norm = fmax(norm, squares); /* leaves NaN out */
    }
    verify_norm(t, PACK_NORM, norm, k->cols);
}

const op_check check_pack = {pack_trials, pack_invoke, pack_verify};

/* -------------------------------------------------------------------------------------------------------- finite -- */

/* place: which element is `value`, the others being finite; -1: none. */
static void finite_trial(checker *c, int64_t rows, int64_t n, int64_t place, float value) {
    trial *t = trial_begin(c, "%" PRId64 " x %" PRId64 ", element %" PRId64 " is %g (0x%08" PRIx32 ")", rows, n, place,
                           (double)value, float_bits(value));
    if (!t)
        return;
    t->size[0] = rows;
    t->size[1] = n;
    operand *v = trial_floats(t, "v", CELL_KEPT, rows, n, some_stride(t, n));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint32_t greatest = 0x7f7fffff | (uint32_t)rng_below(&t->rng, 2) << 31;
            *float_before(v, i, j) = rng_below(&t->rng, 3) ? rng_normal(&t->rng) : bits_float(greatest);
            if (i * n + j == place)
                *float_before(v, i, j) = value;
        }
    trial_run(t);
}

static void finite_trials(checker *c) {
    static const uint32_t others[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345};
    for (int64_t n = 1; n <= 4 * c->kernel->nr + 3; n++) {
        for (int64_t place = 0; place < n; place++)
            finite_trial(c, 1, n, place, bits_float(others[(n + place) % 5]));
        for (int64_t rows = 1; rows <= 4; rows++) {
            finite_trial(c, rows, n, -1, 0.0f);
            finite_trial(c, rows, n, n * (rows - 1) + n / 2, bits_float(others[(n + rows) % 5]));
        }
    }
    for (int i = 0; i < 40; i++) {
        finite_trial(c, 256, 64, -1, 0.0f);
        finite_trial(c, 256, 64, i * 401, bits_float(others[i % 5]));
    }
}

static void finite_invoke(const fv_kernel *kernel, trial *t) {
    t->result = kernel->run.finite_f32(t->size[0], t->size[1], trial_pointer(t, 0), t->operand[0].stride);
}

static void finite_verify(const trial *t) {
    const operand *v = &t->operand[0];
    bool all = true;
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j < v->cols; j++)
            all = all && (float_bits(*float_before(v, i, j)) & 0x7f800000) != 0x7f800000;
    if (t->want_result != all)
        trial_fail(t, "returns %" PRId64, t->want_result);
}

const op_check check_finite = {finite_trials, finite_invoke, finite_verify};

/* ----------------------------------------------------------------------------------------------------------- exp -- */

enum { EXP_N, EXP_IN_PLACE };

static float some_exponent(rng *r) {
    static const uint32_t specials[] = {
        0x00000000, 0x80000000, 0x80000001,
        0x807fffff, 0xff7fffff, 0xff800000, /* zeros, subnormal, lowest, -inf */
        0x7fc00000, 0x7f800001, 0xffc12345,
        0xc2aeac4f, 0xc2aeac50, 0xc2d00000, /* NaN, around -87.33654, -104 */
        0x7f800000, 0x7f7fffff, 0x42aeac50,
        0x42b17217, 0x42b17218, 0x42c80000, /* inf, greatest, around 88.72283, 100 */
    };
    switch (rng_below(r, 8)) {
    case 0: return bits_float(specials[rng_below(r, (int64_t)(sizeof specials / sizeof specials[0]))]);
    case 1: return rng_uniform(r, -88.0f, -86.5f);
    case 2: return rng_uniform(r, -1.0f, 0.0f);
    case 3: return rng_pattern(r); /* any number or NaN */
    case 4: return rng_uniform(r, 0.0f, 90.0f);
    default: return rng_uniform(r, -104.0f, 0.0f);
    }
}

static void exp_trial(checker *c, int64_t n, bool in_place) {
    trial *t = trial_begin(c, "n=%" PRId64 "%s", n, in_place ? " in place" : "");
    if (!t)
        return;
    t->size[EXP_N] = n;
    t->size[EXP_IN_PLACE] = in_place;
    operand *x = trial_floats(t, "x", in_place ? CELL_NAN : CELL_KEPT, 1, n, n);
    if (!in_place)
        trial_floats(t, "y", CELL_NAN, 1, n, n);
    for (int64_t i = 0; i < n; i++)
        *float_before(x, 0, i) = some_exponent(&t->rng);
    trial_run(t);
}

static void exp_trials(checker *c) {
    for (int64_t n = 0; n <= 5 * c->kernel->nr + 1; n++)
        for (int i = 0; i < 6; i++)
            exp_trial(c, n, i % 2);
    for (int i = 0; i < 40; i++)
        exp_trial(c, 1000 + i, i % 2);
}

static void exp_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.exp_f32(t->size[EXP_N], trial_pointer(t, 0), trial_pointer(t, t->size[EXP_IN_PLACE] ? 0 : 1));
}

static void exp_verify(const trial *t) {
    const operand *x = &t->operand[0], *y = &t->operand[t->size[EXP_IN_PLACE] ? 0 : 1];
    for (int64_t i = 0; i < x->cols; i++) {
        const float from = *float_before(x, 0, i), got = float_want(y, 0, i);
        const double exact = exp((double)from);
        const bool ok = exact < 0x1p-126  ? float_bits(got) == 0
                        : exact > FLT_MAX ? got == INFINITY
                                          : near_double(got, exact, float_ulp(exact));
        if (!ok) {
            trial_fail(t, "exp(%.9g) is %.9g, float64 gives %.17g", (double)from, (double)got, exact);
            return;
        }
    }
}

const op_check check_exp = {exp_trials, exp_invoke, exp_verify};
