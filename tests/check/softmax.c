/* Trials of softmax. */
#include "scores.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_BEGIN, SIZE_END, SIZE_BITS_STEP, SIZE_HAS_BITS, SIZE_KNOWN, SIZE_NORMAL, SIZE_PLACE };
enum { OPERAND_S, OPERAND_M, OPERAND_L, OPERAND_LANES, OPERAND_MORE }; /* more: p, if not in place; bits */

/* Where p goes: over s, elsewhere, or elsewhere as pairs. */
typedef enum p_place { P_IN_PLACE, P_APART, P_PAIRED } p_place;

static int place_of_p(const trial *t) { return t->size[SIZE_PLACE] == P_IN_PLACE ? OPERAND_S : OPERAND_MORE; }
static int place_of_bits(const trial *t) { return OPERAND_MORE + (t->size[SIZE_PLACE] != P_IN_PLACE); }

/* p of key begin + j, as a float. */
static float p_want(const trial *t, int64_t row, int64_t j) {
    const operand *p = &t->operand[place_of_p(t)];
    if (t->size[SIZE_PLACE] != P_PAIRED)
        return float_want(p, row, j);
    const uint32_t word = float_bits(float_want(p, row, j / 2));
    return bits_float(j % 2 ? word << 16 : word & 0xffff0000u);
}

static const fv_keybits *row_bits(const trial *t, int64_t row) {
    if (!t->size[SIZE_HAS_BITS])
        return NULL;
    return (const fv_keybits *)t->operand[place_of_bits(t)].before + row * t->size[SIZE_BITS_STEP];
}

/* A row with an attended NaN must give NaN as its sum and at that key; its maximum and the rest are open. */
static void open_nan_row(trial *t, int64_t row) {
    const operand *s = &t->operand[OPERAND_S], *p = &t->operand[place_of_p(t)];
    const fv_keybits *bits = row_bits(t, row);
    bool nan = false, paired = t->size[SIZE_PLACE] == P_PAIRED;
    for (int64_t j = 0; j < s->cols; j++)
        nan = nan || ((!bits || attends(bits, s->origin + j)) && float_is_nan(*float_before(s, row, j)));
    for (int64_t j = 0; j < s->cols; j++) {
        const bool masked = bits && !attends(bits, s->origin + j),
                   open = nan && !masked && (paired || !float_is_nan(*float_before(s, row, j)));
        unsigned char *kind = cell_of(p, row, paired ? j / 2 : j);
        if (!paired || j % 2 == 0 || open) /* a pair is open if one of its two is */
            *kind = open ? CELL_ANY : masked || paired ? CELL_BITS : CELL_NAN;
    }
    if (nan)
        *cell_of(&t->operand[OPERAND_M], 0, row) = CELL_ANY;
}

/* Maxima of the columns before row_max_end, NaN left out, in any lane. */
static void fill_lanes(trial *t, int64_t row) {
    const operand *s = &t->operand[OPERAND_S], *lanes = &t->operand[OPERAND_LANES];
    const int64_t row_max_end = t->size[SIZE_KNOWN] - t->size[SIZE_BEGIN];
    float row_max = -INFINITY;
    for (int64_t j = 0; j < row_max_end; j++)
        row_max = *float_before(s, row, j) > row_max ? *float_before(s, row, j) : row_max;
    for (int64_t lane = 0; lane < FV_LANES && row_max_end > 0; lane++)
        *float_before(lanes, row, lane) = rng_below(&t->rng, 2) ? -INFINITY : fminf(-2.0f, row_max);
    if (row_max_end > 0)
        *float_before(lanes, row, rng_below(&t->rng, FV_LANES)) = row_max;
}

/* May softmax be told that all p are normal numbers? */
static bool all_normal(const trial *t) {
    const operand *s = &t->operand[OPERAND_S];
    for (int64_t row = 0; row < s->rows; row++) {
        const fv_keybits *bits = row_bits(t, row);
        float lowest = INFINITY, row_max = -INFINITY;
        for (int64_t j = 0; j < s->cols; j++)
            if (!bits || attends(bits, s->origin + j)) { /* NaN does not count */
                lowest = fminf(lowest, t->c * *float_before(s, row, j));
                row_max = fmaxf(row_max, t->c * *float_before(s, row, j));
            }
        if (lowest == -INFINITY || (lowest < row_max && lowest - row_max < -87.0f))
            return false;
    }
    return true;
}

static void attend_known(fv_keybits *bits, int64_t begin, int64_t row_max_end) {
    for (int64_t key = begin; key < row_max_end; key++)
        bits->word[key / 64] |= (uint64_t)1 << (key % 64);
}

static void softmax_trial_placed(checker *c, int64_t rows, int64_t begin, int64_t end, int64_t row_max_end,
                                 int64_t step, attended kind, score_kind scores, p_place place) {
    static const char *const place_words[] = {", in place", "", ", in pairs"};
    const bool has_bits = step >= 0;
    trial *t = trial_begin(c,
                           "rows=%" PRId64 " columns [%" PRId64 ", %" PRId64 "), %" PRId64
                           " row_max_end, %s%s keys attended, scores %s%s",
                           rows, begin, end, row_max_end - begin, has_bits ? attended_words[kind] : "no bits, all",
                           step == 0 ? " (one for all rows)" : "", score_words[scores], place_words[place]);
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_BEGIN] = begin;
    t->size[SIZE_END] = end;
    t->size[SIZE_BITS_STEP] = has_bits ? step : 0;
    t->size[SIZE_HAS_BITS] = has_bits;
    t->size[SIZE_KNOWN] = row_max_end;
    t->size[SIZE_PLACE] = place;
    t->c = some_score_scale(&t->rng);
    operand *s = trial_floats(t, "s", place == P_IN_PLACE ? CELL_NAN : CELL_KEPT, rows, end - begin,
                              some_stride(t, end - begin));
    s->origin = begin;
    trial_floats(t, "m", CELL_ZERO, 1, rows, rows);
    trial_floats(t, "l", CELL_NAN, 1, rows, rows);
    trial_floats(t, "lanes", CELL_ANY, rows, FV_LANES, FV_LANES);
    if (place == P_APART)
        trial_floats(t, "p", CELL_NAN, rows, end - begin, some_stride(t, end - begin))->origin = begin;
    if (place == P_PAIRED)
        trial_floats(t, "p", CELL_BITS, rows, (end - begin) / 2, some_stride(t, (end - begin) / 2))->origin = begin / 2;
    if (has_bits) {
        const int64_t entries = step == 0 ? 1 : rows, words = FV_SEGMENT / 64;
        operand *bits =
            trial_operand(t, "bits", sizeof(uint64_t), CELL_KEPT, entries, words, step == 0 ? words : step * words);
        for (int64_t i = 0; i < entries; i++) {
            fill_keybits(t, (fv_keybits *)bits->before + i * step, kind, begin, end);
            attend_known((fv_keybits *)bits->before + i * step, begin, row_max_end);
        }
    }
    for (int64_t i = 0; i < rows && end > begin; i++) {
        /* NaN and infinity in every other row only: a row must not see its neighbours. */
        const bool special = scores == SCORES_NAN || scores == SCORES_HIGH;
        fill_scores(t, s, i, row_bits(t, i), special && i % 2 ? SCORES_NORMAL : scores);
        fill_lanes(t, i);
        open_nan_row(t, i);
    }
    t->size[SIZE_NORMAL] = rng_below(&t->rng, 2) && all_normal(t);
    trial_run(t);
}

static void softmax_trial(checker *c, int64_t rows, int64_t begin, int64_t end, int64_t row_max_end, int64_t step,
                          attended kind, score_kind scores) {
    softmax_trial_placed(c, rows, begin, end, row_max_end, step, kind, scores, P_IN_PLACE);
    softmax_trial_placed(c, rows, begin, end, row_max_end, step, kind, scores, P_APART);
    if (c->kernel->type == FV_TYPE_bf16)
        softmax_trial_placed(c, rows, begin, end, row_max_end, step, kind, scores, P_PAIRED);
}

static void softmax_trials(checker *c) {
    static const int64_t few_rows[] = {1,  2,  3,  7,  8, 9,
                                       15, 16, 17, 32, 33}; /* a row may be a lane, so tiles of rows too */
    enum { FEW_ROWS = sizeof few_rows / sizeof few_rows[0] };
    int64_t turn = 0;
    for (int64_t begin = 0; begin < FV_SEGMENT; begin += FV_LANES)
        for (int64_t end = begin + FV_LANES; end <= FV_SEGMENT; end += FV_LANES, turn++) {
            const int64_t some = begin + turn * FV_LANES % (end - begin); /* row_max_end: none, some or all */
            softmax_trial(c, few_rows[turn % FEW_ROWS], begin, end, turn % 2 ? end : some, -1, ATTEND_ALL,
                          (score_kind)(turn % SCORE_KINDS));
            for (int kind = 0; kind < ATTEND_KINDS; kind++)
                softmax_trial(c, few_rows[(turn + kind) % FEW_ROWS], begin, end, kind % 2 ? some : begin,
                              (turn + kind) % 3, (attended)kind, (score_kind)((turn + kind) % SCORE_KINDS));
        }
    for (int scores = 0; scores < SCORE_KINDS; scores++)
        for (int kind = 0; kind < ATTEND_KINDS; kind++)
            for (int64_t step = -1; step <= 2; step++) {
                softmax_trial(c, 18, 0, FV_SEGMENT, 0, step, (attended)kind, (score_kind)scores);
                softmax_trial(c, 3, 48, 80, 64, step, (attended)kind, (score_kind)scores);
                softmax_trial(c, 20, 0, FV_SEGMENT, FV_SEGMENT, step, (attended)kind, (score_kind)scores);
            }
}

static void softmax_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.softmax_f32(
        &(fv_softmax_f32_args){.rows = t->size[SIZE_ROWS],
                               .begin = t->size[SIZE_BEGIN],
                               .end = t->size[SIZE_END],
                               .s = trial_pointer(t, OPERAND_S),
                               .lds = t->operand[OPERAND_S].stride,
                               .c = t->c,
                               .p = trial_pointer(t, place_of_p(t)),
                               .ldp = t->operand[place_of_p(t)].stride,
                               .paired = t->size[SIZE_PLACE] == P_PAIRED,
                               .bits = t->size[SIZE_HAS_BITS] ? trial_pointer(t, place_of_bits(t)) : NULL,
                               .bits_step = t->size[SIZE_BITS_STEP],
                               .lanes = trial_pointer(t, OPERAND_LANES),
                               .row_max_end = t->size[SIZE_KNOWN],
                               .no_underflow = (int)t->size[SIZE_NORMAL],
                               .m = trial_pointer(t, OPERAND_M),
                               .l = trial_pointer(t, OPERAND_L)});
}

/* p of bfloat16 by one rounding of a double, whose 53 bits hold p and what is added. */
static float rounded_p(float p) {
    if (!(p >= 0x1p-40f))
        return float_is_nan(p) ? p : 0.0f;
    int exponent;
    const double digits = ldexp(frexp((double)p, &exponent), 8); /* 8 digits before the point */
    return (float)ldexp(nearbyint(digits), exponent - 8);
}

/* The formulas of kernels.h one by one. Returns what is wrong, or NULL. */
static const char *softmax_row_wrong(const trial *t, int64_t row) {
    const operand *s = &t->operand[OPERAND_S];
    const fv_keybits *bits = row_bits(t, row);
    const float m = float_want(&t->operand[OPERAND_M], 0, row), l = float_want(&t->operand[OPERAND_L], 0, row);
    float row_max = -INFINITY, lane[FV_LANES] = {0.0f};
    bool nan = false;
    for (int64_t j = 0; j < s->cols; j++) {
        const float score = t->c * *float_before(s, row, j);
        if (bits && !attends(bits, s->origin + j))
            continue;
        nan = nan || float_is_nan(score);
        row_max = score > row_max ? score : row_max;
    }
    if (!nan && m != row_max)
        return "m is not the maximum of the attended scores";
    const float base = m == -INFINITY ? 0.0f : m;
    for (int64_t j = 0; j < s->cols; j++) {
        const float score = t->c * *float_before(s, row, j), p = p_want(t, row, j);
        if (bits && !attends(bits, s->origin + j)) {
            if (float_bits(p) != 0x80000000)
                return "p of a masked key is not -0";
            continue;
        }
        const bool rounds = t->checker->kernel->type == FV_TYPE_bf16;
        const float exact_p = rounds ? rounded_p(scalar_exp(score - base)) : scalar_exp(score - base);
        if (float_is_nan(score) && !float_is_nan(p))
            return "p of a NaN score is a number";
        if (!nan && float_bits(p) != float_bits(exact_p) && !(float_is_nan(p) && float_is_nan(exact_p)))
            return "p is not exp(s - m)";
        if (!nan && !rounds && !near_exp(p, (double)score - (double)base))
            return "p is far from float64's exp(s - m)";
        lane[(s->origin + j) % FV_LANES] += p;
    }
    for (int half = FV_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    if (float_bits(l) != float_bits(lane[0]) && !(float_is_nan(l) && float_is_nan(lane[0])))
        return "l is not the sum of p in the order of kernels.h";
    return nan && !float_is_nan(l) ? "l of a row with a NaN score is a number" : NULL;
}

static void softmax_verify(const trial *t) {
    for (int64_t row = 0; row < t->size[SIZE_ROWS]; row++) {
        const char *wrong = softmax_row_wrong(t, row);
        if (wrong) {
            trial_fail(t, "row %" PRId64 ": %s", row, wrong);
            return;
        }
    }
}

const op_check check_softmax = {softmax_trials, softmax_invoke, softmax_verify};
