/* Trials of products with int8 keys, and of the rows of queries made for them. */
#include "check.h"

#include <inttypes.h>
#include <string.h>

/* t->size, t->operand */
enum { SIZE_ROWS, SIZE_KEYS, SIZE_CHANNELS, SIZE_MAXIMA, SIZE_KIND, SIZE_FIRST };
enum { OPERAND_WORDS, OPERAND_K, OPERAND_K_SCALES, OPERAND_S, OPERAND_Q, OPERAND_MAX };

enum { MAXIMA_NONE, MAXIMA_NEW, MAXIMA_RAISED, MAXIMA };

/* ORDINARY; every product as large as can be, of one sign or of both; rows and keys of zeros, scales and queries that
 * are no ordinary numbers. */
typedef enum kind { ORDINARY, EXTREME, EXTREME_SIGNS, SPECIAL, KINDS } kind;
static const char *const kind_words[KINDS] = {"", ", extreme", ", extreme of both signs", ", special values"};

/* ------------------------------------------------------------------------------------------------------- oracle -- */

/* The formulas of int8.h, one row at a time, by double: quotients and products of floats rounded from doubles are those
 * of floats. */
static float oracle_row(int64_t channels, const float *q, int64_t *integers) {
    float top = 0.0f;
    bool finite = true;
    for (int64_t t = 0; t < channels; t++) {
        finite = finite && isfinite(q[t]);
        top = finite && fabsf(q[t]) > top ? fabsf(q[t]) : top;
        integers[t] = 0;
    }
    if (!finite)
        return NAN;
    if (top < 0x1p-112f)
        return 0.0f;
    const float factor = (float)(16319.0 / (double)top);
    for (int64_t t = 0; t < channels; t++)
        integers[t] = (int64_t)nearbyint((double)(float)((double)q[t] * (double)factor));
    return (float)((double)top / 16319.0);
}

/* Row i as fv_i8_rows() made it. */
static bool row_right(const trial *t, int64_t i, const int64_t *integers, float scale) {
    const operand *words = &t->operand[OPERAND_WORDS];
    const fv_rows rows = {words->before, words->rows, words->stride};
    const fv_i8_row *row = fv_i8_row_of(&rows, i);
    const float got = row->scale;
    int64_t sum = 0;
    for (int64_t c = 0; c < 4 * (words->cols - 1); c++) {
        const fv_i8_word *word = row->word + c / 4;
        const int64_t pair = (c % 2 ? word->odd : word->even)[c % 4 / 2],
                      planes = 128 * word->high[c % 4] + word->low[c % 4],
                      want = c < t->size[SIZE_CHANNELS] ? integers[c] : 0;
        sum += want;
        if (pair != want || planes != want) {
            trial_fail(t,
                       "channel %" PRId64 " of row %" PRId64 " became %" PRId64 " and %" PRId64 " instead of %" PRId64,
                       c, i, pair, planes, want);
            return false;
        }
    }
    if (row->sum == sum && (float_bits(got) == float_bits(scale) || (float_is_nan(got) && float_is_nan(scale))))
        return true;
    trial_fail(t, "row %" PRId64 " has another scale or sum than int8.h says", i);
    return false;
}

/* ------------------------------------------------------------------------------------------------------- trials -- */

static void fill_queries(trial *t, operand *q, kind how) {
    fill_normal(t, q);
    for (int64_t i = 0; i < q->rows; i++)
        for (int64_t c = 0; c < q->cols && (how == EXTREME || how == EXTREME_SIGNS); c++)
            *float_before(q, i, c) = how == EXTREME_SIGNS && rng_below(&t->rng, 2) ? -3.7f : 3.7f;
    if (how == SPECIAL) {
        static const float tops[] = {0.0f, 0x1p-113f, 0x1p-112f, 0x1p100f, NAN, INFINITY};
        for (int64_t i = 0; i < q->rows; i++) {
            const float top = tops[rng_below(&t->rng, (int64_t)(sizeof tops / sizeof tops[0]))];
            for (int64_t c = 0; c < q->cols; c++)
                *float_before(q, i, c) = isfinite(top) ? rng_uniform(&t->rng, -top, top) : rng_normal(&t->rng);
            *float_before(q, i, rng_below(&t->rng, q->cols)) = top;
        }
    }
}

/* Keys, data being the first. */
static fv_operand keys_of(const trial *t, const void *data, const float *scales) {
    return (fv_operand){.data = data,
                        .scales = scales,
                        .columns = t->size[SIZE_KEYS],
                        .steps = t->size[SIZE_CHANNELS],
                        .row = FV_KEY_GROUP,
                        .panel = t->operand[OPERAND_K].stride / 4,
                        .width = FV_KEY_GROUP,
                        .first = (int16_t)t->size[SIZE_FIRST],
                        .format = FV_FORMAT_i8x4};
}

/* Where channel c of a key is. */
static int8_t *key_at(const trial *t, int64_t j, int64_t c) {
    const fv_operand k = keys_of(t, NULL, NULL);
    return (int8_t *)t->operand[OPERAND_K].before + t->size[SIZE_FIRST] * 4 + fv_operand_place(&k, c, j);
}

static void fill_keys(trial *t, operand *k, operand *scales, kind how) {
    for (int64_t j = 0; j < k->rows; j++)
        for (int64_t c = 0; c < k->cols; c++)
            ((int8_t *)k->before)[j * k->stride + c] =
                (int8_t)(how == EXTREME         ? 127
                         : how == EXTREME_SIGNS ? (rng_below(&t->rng, 2) ? 127 : -127)
                                                : rng_between(&t->rng, -127, 127));
    for (int64_t j = 0; j < scales->cols; j++)
        *float_before(scales, 0, j) = rng_uniform(&t->rng, 0.001f, 0.1f);
    for (int64_t j = 0; j < scales->cols && how == SPECIAL; j++)
        if (rng_below(&t->rng, 3) == 0) {
            static const float specials[] = {0.0f, NAN, INFINITY, 0x1p-140f, 0x1p120f};
            *float_before(scales, 0, j) = specials[rng_below(&t->rng, (int64_t)(sizeof specials / sizeof specials[0]))];
            const int8_t all = rng_below(&t->rng, 2) ? INT8_MIN : 0;
            for (int64_t c = 0; c < t->size[SIZE_CHANNELS]; c++)
                *key_at(t, j, c) = all;
        }
}

static void keys_i8_trial(checker *c, int64_t rows, int64_t keys, int64_t channels, int maxima, kind how) {
    trial *t = trial_begin(c, "rows=%" PRId64 " keys=%" PRId64 " channels=%" PRId64 "%s%s", rows, keys, channels,
                           maxima == MAXIMA_NONE  ? ""
                           : maxima == MAXIMA_NEW ? ", with maxima"
                                                  : ", maxima raised",
                           kind_words[how]);
    if (!t)
        return;
    const int64_t written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    const int64_t words = fv_i8_row_words(channels);
    const int64_t first = (keys + channels) % 3 == 0 ? FV_LANES : 0,
                  groups = (first + keys + FV_KEY_GROUP - 1) / FV_KEY_GROUP,
                  bytes = (channels + 3) / 4 * 4 * FV_KEY_GROUP;
    const int64_t sizes[] = {rows, keys, channels, maxima, how, first};
    memcpy(t->size, sizes, sizeof sizes);
    operand *words_of = trial_operand(t, "words of q", sizeof(fv_i8_word), CELL_KEPT, rows, words, words);
    operand *k = trial_operand(t, "k", sizeof(int8_t), CELL_KEPT, groups, bytes, some_stride(t, bytes / 4) * 4);
    operand *k_scales = trial_floats(t, "scales of k", CELL_KEPT, 1, keys, keys);
    trial_floats(t, "s", CELL_NAN, rows, written, some_stride(t, written));
    operand *q = trial_floats(t, "q", CELL_KEPT, rows, channels, some_stride(t, channels));
    fill_queries(t, q, how);
    fill_keys(t, k, k_scales, how);
    fv_i8_rows(rows, channels, float_before(q, 0, 0), q->stride, (fv_i8_word *)words_of->before);
    if (maxima) {
        operand *max = trial_floats(t, "row_max", CELL_ZERO, rows, FV_LANES, FV_LANES);
        for (int64_t i = 0; i < rows && maxima == MAXIMA_RAISED; i++)
            for (int64_t lane = 0; lane < FV_LANES; lane++)
                *float_before(max, i, lane) = rng_below(&t->rng, 2) ? -INFINITY : rng_normal(&t->rng);
    }
    trial_run(t);
}

static void keys_i8_trials(checker *c) {
    for (int64_t rows = 1; rows <= FV_FEW_ROWS; rows++) {
        for (int64_t keys = 1; keys <= 66; keys++)
            keys_i8_trial(c, rows, keys, 1 + (7 * keys + 3 * rows) % 70, MAXIMA_NONE, (kind)(keys % KINDS));
        for (int64_t channels = 1; channels <= 300; channels += channels < 70 ? 1 : 23)
            keys_i8_trial(c, rows, FV_LANES * (1 + channels % 4), channels, (int)(channels % MAXIMA),
                          (kind)(channels % KINDS));
        for (int64_t keys = 96; keys <= 300; keys += 51)
            keys_i8_trial(c, rows, keys, 128, MAXIMA_NONE, (kind)(rows % KINDS));
        for (int how = 0; how < KINDS; how++)
            keys_i8_trial(c, rows, FV_SEGMENT, 64, how % MAXIMA, (kind)how);
    }
    for (int how = 0; how < KINDS; how++)
        keys_i8_trial(c, 1 + 2 * how, 48, FV_I8_CHANNELS, MAXIMA_NEW, (kind)how);
}

static void keys_i8_invoke(const fv_kernel *kernel, trial *t) {
    const int8_t *k = trial_pointer(t, OPERAND_K);
    const fv_rows q = {trial_pointer(t, OPERAND_WORDS), t->size[SIZE_ROWS], t->operand[OPERAND_WORDS].stride};
    const fv_operand keys = keys_of(t, k + t->size[SIZE_FIRST] * 4, trial_pointer(t, OPERAND_K_SCALES));
    const fv_epilogue epilogue = {.row_max = t->size[SIZE_MAXIMA] ? trial_pointer(t, OPERAND_MAX) : NULL,
                                  .accumulate_max = t->size[SIZE_MAXIMA] == MAXIMA_RAISED};
    kernel->run.multiply(&q, &keys, trial_pointer(t, OPERAND_S), t->operand[OPERAND_S].stride, &epilogue, NULL);
}

static bool score_right(const trial *t, int64_t i, int64_t j, const int64_t *integers, float scale) {
    const bool key = j < t->size[SIZE_KEYS];
    int64_t sum = 0;
    for (int64_t c = 0; c < t->size[SIZE_CHANNELS]; c++)
        sum += integers[c] * *key_at(t, j, c);
    const double k_scale = key ? (double)*float_before(&t->operand[OPERAND_K_SCALES], 0, j) : 0.0;
    const float scales = (float)(scale * k_scale), want = (float)((double)(float)sum * (double)scales);
    const float got = float_want(&t->operand[OPERAND_S], i, j);
    if (float_bits(got) == float_bits(want) || (float_is_nan(got) && float_is_nan(want)))
        return true;
    trial_fail(t, "the score of row %" PRId64 " with key %" PRId64 " is %.9g instead of %.9g", i, j, (double)got,
               (double)want);
    return false;
}

static void keys_i8_verify(const trial *t) {
    static int64_t integers[FV_I8_CHANNELS];
    const operand *s = &t->operand[OPERAND_S], *max = &t->operand[OPERAND_MAX];
    for (int64_t i = 0; i < t->size[SIZE_ROWS]; i++) {
        const float scale = oracle_row(t->size[SIZE_CHANNELS], float_before(&t->operand[OPERAND_Q], i, 0), integers);
        float highest = -INFINITY, found = -INFINITY;
        if (!row_right(t, i, integers, scale))
            return;
        for (int64_t j = 0; j < s->cols; j++) {
            if (!score_right(t, i, j, integers, scale))
                return;
            highest = float_want(s, i, j) > highest ? float_want(s, i, j) : highest;
        }
        for (int64_t lane = 0; lane < FV_LANES && t->size[SIZE_MAXIMA]; lane++) {
            const float before = *float_before(max, i, lane), after = float_want(max, i, lane);
            highest = t->size[SIZE_MAXIMA] == MAXIMA_RAISED && before > highest ? before : highest;
            found = after > found || float_is_nan(after) ? after : found;
        }
        if (t->size[SIZE_MAXIMA] && found != highest) {
            trial_fail(t, "row %" PRId64 "'s maximum is %.9g instead of %.9g", i, (double)found, (double)highest);
            return;
        }
    }
}

const op_check check_keys_i8 = {keys_i8_trials, keys_i8_invoke, keys_i8_verify};
