/* Trials of products of few rows, with keys and with values as they lie. */
#include "check.h"

#include "dispatch/dispatch.h"
#include "multiply_call.h"
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#include <inttypes.h>

/* t->size, t->operand */
enum {
    SIZE_ROWS,
    SIZE_N,
    SIZE_K,
    SIZE_STORE,
    SIZE_LANES
}; /* the last: 0 keys in rows, else 1 + the first key's place in its group; of values, do steps have scales? */
enum { OPERAND_A, OPERAND_B, OPERAND_C, OPERAND_MAX };
enum { OPERAND_START = OPERAND_MAX, OPERAND_MERGE_A, OPERAND_MERGE_B, OPERAND_SCALES };

static int64_t type_size(fv_type type) { return fv_type_bits(type) / 8; }

/* B as keys: in rows, or in panels of FV_KEY_GROUP, data being the first key. */
static fv_operand keys_of(const trial *t, const void *data) {
    const fv_format format = t->checker->kernel->format;
    const int64_t stride = t->operand[OPERAND_B].stride, lanes = t->size[SIZE_LANES];
    fv_operand k = {
        .data = data, .columns = t->size[SIZE_N], .steps = t->size[SIZE_K], .row = stride, .format = format};
    if (lanes) {
        k.row = k.width = FV_KEY_GROUP;
        k.first = (int16_t)(lanes - 1);
        k.panel = stride / fv_format_of(format).per_word;
    }
    return k;
}

/* Words before the first key. */
static int64_t words_before(const trial *t) { return fv_max(t->size[SIZE_LANES] - 1, 0); }

/* Where element j of row i of B is, or channel j of key i, counted in elements. */
static int64_t element_at(const trial *t, int64_t i, int64_t j) {
    if (!fv_multiply_keys(t->checker->kernel))
        return i * t->operand[OPERAND_B].stride + j;
    const fv_operand k = keys_of(t, NULL);
    return words_before(t) * fv_format_of(k.format).per_word + fv_operand_place(&k, j, i);
}

/* It, as the float that it stands for. */
static float element(const trial *t, int64_t i, int64_t j) {
    const operand *b = &t->operand[OPERAND_B];
    const fv_type type = t->checker->kernel->type;
    const int64_t at = element_at(t, i, j);
    if (type == FV_TYPE_f32)
        return *float_before(b, 0, at);
    if (type == FV_TYPE_i8)
        return ((const int8_t *)b->before)[at];
    const uint16_t bits = ((const uint16_t *)b->before)[at];
    return type == FV_TYPE_bf16 ? half_widen_bf16(bits) : half_widen_f16(bits);
}

/* Any bits now and then, else about 1 in size: of bfloat16 or float16. */
static void fill_half(trial *t, operand *o, bool special) {
    const bool f16 = t->checker->kernel->type == FV_TYPE_f16;
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++) {
            const uint16_t bits = (uint16_t)rng_u64(&t->rng);
            ((uint16_t *)o->before)[i * o->stride + j] =
                special && rng_below(&t->rng, 4 * o->cols) == 0 ? bits
                : f16 ? (uint16_t)((bits & 0x83ff) | (10 + (bits >> 10 & 7)) << 10)
                      : (uint16_t)((bits & 0x807f) | (122 + (bits >> 8 & 7)) << 7);
        }
}

static void fill_int8(trial *t, operand *o) {
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++)
            ((int8_t *)o->before)[i * o->stride + j] = (int8_t)rng_between(&t->rng, -128, 127);
}

static operand *add_b(trial *t, const char *name, int64_t rows, int64_t cols, bool special) {
    const fv_type type = t->checker->kernel->type;
    const int64_t stride = some_stride(t, cols), word = fv_format_of(t->checker->kernel->format).per_word;
    operand *o =
        trial_operand(t, name, (size_t)type_size(type), CELL_KEPT, rows, cols, (stride + word - 1) / word * word);
    if (type == FV_TYPE_i8)
        fill_int8(t, o);
    else if (type != FV_TYPE_f32)
        fill_half(t, o, special);
    else {
        fill_normal(t, o);
        if (special)
            sprinkle_specials(t, o, 4 * cols);
    }
    return o;
}

/* The chain of kernels.h by bits, and its distance from float64. */
static bool chain_right(const trial *t, const char *what, float got, float acc, double sum, double magnitude,
                        int64_t k) {
    if (float_bits(got) != float_bits(acc) && !(float_is_nan(got) && float_is_nan(acc))) {
        trial_fail(t, "%s is %.9g, the chain of kernels.h gives %.9g", what, (double)got, (double)acc);
        return false;
    }
    const double bound = (double)(k + 2) * (float_eps() * magnitude + 0x1p-149);
    if (magnitude < 0x1p127 && !near_double(got, sum, bound)) {
        trial_fail(t, "%s is %.9g, float64 gives %.17g (bound %.3g)", what, (double)got, sum, bound);
        return false;
    }
    return true;
}

/* --------------------------------------------------------------------------------------------------------- keys -- */

enum { MAXIMA_NONE, MAXIMA_NEW, MAXIMA_RAISED, MAXIMA };

/* ORDINARY numbers; some any bits; queries that are bfloat16, which may be multiplied as pairs, and keys with which
 * that is just exact, just not, or not as some are any bits. */
typedef enum kind { ORDINARY, SPECIAL, PAIRED, PAIRED_LEAST, PAIRED_LESS, PAIRED_SPECIAL, KINDS } kind;
static const char *const kind_words[KINDS] = {
    "", ", special values", ", pairs", ", least pairs", ", too small pairs", ", pairs of special values"};

/* Queries as bfloat16 from 2^-8 on. Keys from the exponent on where the sum of both is -112, or -113, and the last
 * one's products all but cancel out: what is left is 2^-126, or 2^-127, which VDPBF16PS would flush. */
static void fill_paired(trial *t, operand *q, operand *k, kind how) {
    for (int64_t i = 0; i < q->rows; i++)
        for (int64_t j = 0; j < q->cols; j++) {
            const uint32_t bits = (uint32_t)rng_u64(&t->rng);
            *float_before(q, i, j) = bits_float((bits & 0x807f0000) | (119 + (bits >> 8 & 7)) << 23);
        }
    if (how != PAIRED_LEAST && how != PAIRED_LESS)
        return;
    uint16_t *const keys = (uint16_t *)k->before;
    if (t->checker->kernel->type != FV_TYPE_bf16 || q->cols < 2)
        return;
    const int least = 127 - (how == PAIRED_LEAST ? 104 : 105);
    for (int64_t i = 0; i < k->rows * k->stride; i++)
        keys[i] = (uint16_t)((keys[i] & 0x807f) | (least + (keys[i] >> 7 & 3)) << 7);
    for (int64_t c = 0; c < q->cols; c++)
        keys[element_at(t, t->size[SIZE_N] - 1, c)] = (uint16_t)(c == 0 ? least << 7 | 1 : c == 1 ? least << 7 : 0);
    for (int64_t i = 0; i < q->rows; i++) {
        *float_before(q, i, 0) = 0x1.02p-8f;
        *float_before(q, i, 1) = -0x1.04p-8f;
    }
}

static void keys_trial(checker *c, int64_t rows, int64_t keys, int64_t channels, int maxima, kind how, int64_t lanes) {
    trial *t = trial_begin(c, "rows=%" PRId64 " keys=%" PRId64 " channels=%" PRId64 "%s%s, lanes %" PRId64, rows, keys,
                           channels,
                           maxima == MAXIMA_NONE  ? ""
                           : maxima == MAXIMA_NEW ? ", with maxima"
                                                  : ", maxima raised",
                           kind_words[how], lanes);
    if (!t)
        return;
    const int64_t written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES,
                  word = fv_format_of(c->kernel->format).per_word;
    const int64_t groups = (lanes - 1 + keys + FV_KEY_GROUP - 1) / FV_KEY_GROUP,
                  words = (channels + word - 1) / word * FV_KEY_GROUP;
    const bool special = how == SPECIAL || how == PAIRED_SPECIAL;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_N] = keys;
    t->size[SIZE_K] = channels;
    t->size[SIZE_STORE] = maxima;
    t->size[SIZE_LANES] = lanes;
    operand *q = trial_floats(t, "q", CELL_KEPT, rows, channels, some_stride(t, channels));
    fill_normal(t, q);
    operand *k = lanes ? add_b(t, "k", groups, words * word, special) : add_b(t, "k", keys, channels, special);
    trial_floats(t, "s", CELL_NAN, rows, written, some_stride(t, written));
    if (how >= PAIRED)
        fill_paired(t, q, k, how);
    else if (special)
        sprinkle_specials(t, q, 4 * channels);
    for (int64_t i = 0; i < groups * FV_KEY_GROUP && lanes; i++) /* behind the last channel */
        for (int64_t j = channels; j % word != 0; j++)
            ((uint16_t *)k->before)[element_at(t, i - (lanes - 1), j)] = 0;
    if (maxima) {
        operand *max = trial_floats(t, "row_max", CELL_ZERO, rows, FV_LANES, FV_LANES);
        for (int64_t i = 0; i < rows && maxima == MAXIMA_RAISED; i++)
            for (int64_t lane = 0; lane < FV_LANES; lane++)
                *float_before(max, i, lane) = rng_below(&t->rng, 2) ? -INFINITY : rng_normal(&t->rng);
    }
    trial_run(t);
}

static void keys_trials(checker *c) {
    const bool panels = c->kernel->format == FV_FORMAT_bf16x2;
    for (int64_t rows = 1; rows <= FV_FEW_ROWS; rows++)
        for (int64_t l = panels; l <= (panels ? 2 : 0); l++) {
            const int64_t lanes = l == 2 ? 1 + FV_LANES : l;
            for (int64_t keys = 1; keys <= 66; keys += 1 + l)
                keys_trial(c, rows, keys, 1 + (7 * keys + 3 * rows) % 70, MAXIMA_NONE, (kind)(keys % KINDS), lanes);
            for (int64_t channels = 1; channels <= 130; channels += channels < 70 ? 1 + l : 13)
                keys_trial(c, rows, FV_LANES * (1 + channels % 4), channels, (int)(channels % MAXIMA),
                           (kind)((channels + rows) % KINDS), lanes);
            for (int how = 0; how < KINDS; how++)
                keys_trial(c, rows, l == 2 ? FV_SEGMENT - FV_LANES : FV_SEGMENT, 64, how % MAXIMA, (kind)how, lanes);
        }
    for (int64_t channels = 255; channels <= 257; channels++) /* as many queries as are kept on the stack, and more */
        for (int how = 0; how < KINDS; how++)
            keys_trial(c, 8, 48, how % 2 ? 2 * channels : channels, MAXIMA_NEW, (kind)how, panels);
    keys_trial(c, 3, 48, 577, MAXIMA_NEW, ORDINARY, panels);
    keys_trial(c, 3, 48, 577, MAXIMA_NEW, PAIRED, panels);
}

static void keys_invoke(const fv_kernel *kernel, trial *t) {
    const char *k = trial_pointer(t, OPERAND_B);
    const fv_rows q = {trial_pointer(t, OPERAND_A), t->size[SIZE_ROWS], t->operand[OPERAND_A].stride};
    const fv_operand keys = keys_of(t, k + words_before(t) * 4);
    const fv_epilogue epilogue = {.row_max = t->size[SIZE_STORE] ? trial_pointer(t, OPERAND_MAX) : NULL,
                                  .accumulate_max = t->size[SIZE_STORE] == MAXIMA_RAISED};
    const fv_prefetch prefetch = {.next = k, .next_end = k + 64};
    kernel->run.multiply(&q, &keys, trial_pointer(t, OPERAND_C), t->operand[OPERAND_C].stride, &epilogue,
                         t->size[SIZE_K] % 3 ? &prefetch : NULL);
}

static void keys_verify(const trial *t) {
    const operand *q = &t->operand[OPERAND_A], *s = &t->operand[OPERAND_C], *max = &t->operand[OPERAND_MAX];
    for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++) {
        float highest = -INFINITY, found = -INFINITY;
        for (int64_t j = 0; j < s->cols; j++) {
            float acc = 0.0f;
            double sum = 0.0, magnitude = 0.0;
            for (int64_t c = 0; c < t->size[SIZE_K]; c++) {
                const float x = *float_before(q, i, c),
                            y = t->size[SIZE_LANES] || j < t->size[SIZE_N] ? element(t, j, c) : 0.0f;
                acc = fmaf(x, y, acc);
                sum += (double)x * y;
                magnitude += fabs((double)x * y);
            }
            if (!chain_right(t, "a score", float_want(s, i, j), acc, sum, magnitude, t->size[SIZE_K]))
                return;
            highest = acc > highest ? acc : highest;
        }
        for (int64_t lane = 0; lane < FV_LANES && t->size[SIZE_STORE]; lane++) {
            const float before = *float_before(max, i, lane), after = float_want(max, i, lane);
            highest = t->size[SIZE_STORE] == MAXIMA_RAISED && before > highest ? before : highest;
            found = after > found || float_is_nan(after) ? after : found;
        }
        if (t->size[SIZE_STORE] && found != highest) {
            trial_fail(t, "row %" PRId64 "'s maximum is %.9g instead of %.9g", i, (double)found, (double)highest);
            return;
        }
    }
}

const op_check check_keys = {keys_trials, keys_invoke, keys_verify};

/* -------------------------------------------------------------------------------------------------------- values -- */

enum { STORED, SCALED, MERGED, CARRIED_ON, CARRIED_ON_MERGED, STORES };

/* Some weights are -0, as those of hidden keys, whose scales may be NaN. */
static void fill_scaled(trial *t, operand *a, operand *scales) {
    fill_uniform(t, scales, 0.001f, 2.0f);
    for (int64_t p = 0; p < a->cols; p++) {
        const bool bad = rng_below(&t->rng, 5) == 0;
        if (bad)
            *float_before(scales, 0, p) = NAN;
        for (int64_t i = 0; i < a->rows; i++) {
            float *weight = float_before(a, i, p);
            *weight = (bad && i > 0) || rng_below(&t->rng, 6) == 0 ? -0.0f : *weight;
        }
    }
}

static void few_trial(checker *c, int64_t m, int64_t n, int64_t k, int how, bool special) {
    trial *t = trial_begin(c, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " store %d%s", m, n, k, how,
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_ROWS] = m;
    t->size[SIZE_N] = n;
    t->size[SIZE_K] = k;
    t->size[SIZE_STORE] = how;
    operand *a = trial_floats(t, "a", CELL_KEPT, m, k, some_stride(t, k));
    fill_normal(t, a);
    add_b(t, "b", k, n, special);
    operand *out = trial_floats(t, "c", CELL_NAN, m, n, some_stride(t, n));
    fill_normal(t, out);
    operand *start = trial_floats(t, "start", CELL_KEPT, m, n, some_stride(t, n));
    fill_normal(t, start);
    fill_uniform(t, trial_floats(t, "merge a", CELL_KEPT, 1, m, m), 0.0f, 1.0f);
    fill_uniform(t, trial_floats(t, "merge b", CELL_KEPT, 1, m, m), 0.0f, 1.0f);
    operand *scales = trial_floats(t, "scales", CELL_KEPT, c->kernel->type == FV_TYPE_i8, k, k);
    t->size[SIZE_LANES] = c->kernel->type == FV_TYPE_i8 && (n + k) % 2 && !special;
    if (special)
        sprinkle_specials(t, a, 4 * k);
    else if (t->size[SIZE_LANES])
        fill_scaled(t, a, scales);
    trial_run(t);
}

static void few_trials(checker *c) {
    for (int64_t m = 1; m <= FV_FEW_ROWS; m++)
        for (int how = 0; how < STORES; how++) {
            for (int64_t n = 1; n <= 70; n += 1 + how)
                few_trial(c, m, n, 1 + (n + m) % 9, how, n % 5 == 0);
            for (int64_t n = 64; n <= 260; n += 31 + m)
                few_trial(c, m, n, 33, how, false);
            few_trial(c, m, 128, FV_SEGMENT, how, how == MERGED);
        }
}

static void few_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    const int64_t how = t->size[SIZE_STORE];
    const char *b = trial_pointer(t, OPERAND_B);
    const bool merged = how == MERGED || how == CARRIED_ON_MERGED;
    const fv_epilogue epilogue = {.start = how >= CARRIED_ON ? trial_pointer(t, OPERAND_START) : NULL,
                                  .ldstart = o[OPERAND_START].stride,
                                  .a = merged ? trial_pointer(t, OPERAND_MERGE_A) : NULL,
                                  .b = merged || how == SCALED ? trial_pointer(t, OPERAND_MERGE_B) : NULL};
    const fv_prefetch prefetch = {.next = b, .next_end = b + 1}, *near = t->size[SIZE_K] % 2 ? &prefetch : NULL;
    const fv_epilogue *e = how == STORED ? NULL : &epilogue;
    const int64_t m = t->size[SIZE_ROWS], n = t->size[SIZE_N], k = t->size[SIZE_K];
    const float *a = trial_pointer(t, OPERAND_A);
    float *c = trial_pointer(t, OPERAND_C);
    fv_operand values = operand_of(kernel->format, n, k, b, o[OPERAND_B].stride);
    values.scales = t->size[SIZE_LANES] ? trial_pointer(t, OPERAND_SCALES) : NULL;
    kernel->run.multiply(&(fv_rows){a, m, o[OPERAND_A].stride}, &values, c, o[OPERAND_C].stride, e, near);
}

static void few_verify(const trial *t) {
    const operand *o = t->operand;
    const int64_t how = t->size[SIZE_STORE];
    for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++)
        for (int64_t j = 0; j < t->size[SIZE_N]; j++) {
            float acc = how >= CARRIED_ON ? *float_before(&o[OPERAND_START], i, j) : 0.0f;
            double sum = acc, magnitude = fabs(sum);
            for (int64_t p = 0; p < t->size[SIZE_K]; p++) {
                const float weight = *float_before(&o[OPERAND_A], i, p), y = element(t, p, j);
                const float x = t->size[SIZE_LANES] && !(weight == 0.0f && signbit(weight))
                                    ? weight * *float_before(&o[OPERAND_SCALES], 0, p)
                                    : weight;
                acc = fmaf(x, y, acc);
                sum += (double)x * y;
                magnitude += fabs((double)x * y);
            }
            const bool overflows = !(magnitude < 0x1p127); /* then the chain may be infinite, or is NaN */
            const float a = *float_before(&o[OPERAND_MERGE_A], 0, i), b = *float_before(&o[OPERAND_MERGE_B], 0, i);
            if (how == SCALED || how == MERGED || how == CARRIED_ON_MERGED) {
                acc = acc * b;
                sum *= b;
                magnitude *= b;
            }
            if (how == MERGED || how == CARRIED_ON_MERGED) {
                const float old = *float_before(&o[OPERAND_C], i, j);
                acc = fmaf(old, a, acc);
                sum += (double)old * a;
                magnitude += fabs((double)old * a);
            }
            if (!chain_right(t, "an element", float_want(&o[OPERAND_C], i, j), acc, sum,
                             overflows ? INFINITY : magnitude, t->size[SIZE_K]))
                return;
        }
}

const op_check check_few = {few_trials, few_invoke, few_verify};
