/* Trials of softmax and weights. */
#include "check.h"

#include <inttypes.h>

/* --------------------------------------------------------------------------------------------- which keys attend -- */

typedef enum attended { ATTEND_ALL, ATTEND_NONE, ATTEND_ONE, ATTEND_HALF, ATTEND_OUTSIDE, ATTEND_KINDS } attended;
static const char *const attended_words[ATTEND_KINDS] = {"all", "none", "one", "half of", "only outside of"};

/* Bits of a row: keys of [begin, end) by kind, those outside of it mostly set, since they must not count. */
static void fill_keybits(trial *t, fv_keybits *bits, attended kind, int64_t begin, int64_t end) {
    const int64_t one = end > begin ? rng_between(&t->rng, begin, end - 1) : -1;
    memset(bits, 0, sizeof *bits);
    for (int64_t key = 0; key < FV_SEGMENT; key++) {
        const bool inside = key >= begin && key < end;
        const bool set = !inside              ? rng_below(&t->rng, 4) != 0
                         : kind == ATTEND_ALL ? true
                         : kind == ATTEND_ONE ? key == one
                                              : kind == ATTEND_HALF && rng_below(&t->rng, 2) != 0;
        bits->word[key / 64] |= (uint64_t)set << (key % 64);
    }
}

static bool attends(const fv_keybits *bits, int64_t key) { return bits->word[key / 64] >> (key % 64) & 1; }

typedef enum score_kind {
    SCORES_NORMAL,
    SCORES_WIDE, /* most weights underflow */
    SCORES_EQUAL,
    SCORES_ZEROS,    /* of both signs */
    SCORES_SOME_LOW, /* -inf among them */
    SCORES_ALL_LOW,  /* nothing but -inf */
    SCORES_HIGH,     /* one +inf */
    SCORES_NAN,      /* a few NaN, with payloads */
    SCORES_HUGE,     /* differences overflow */
    SCORES_TINY,     /* subnormal numbers */
    SCORE_KINDS
} score_kind;

static const char *const score_words[SCORE_KINDS] = {"normal",   "wide",   "equal", "zeros", "some -inf",
                                                     "all -inf", "a +inf", "NaN",   "huge",  "tiny"};

static float some_score(rng *r, score_kind kind) {
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0xffc12345, 0xffffffff, 0x7fbfffff};
    switch (kind) {
    case SCORES_WIDE: return rng_uniform(r, -300.0f, 0.0f);
    case SCORES_EQUAL: return 1.25f;
    case SCORES_ZEROS: return rng_below(r, 2) ? 0.0f : -0.0f;
    case SCORES_SOME_LOW: return rng_below(r, 2) ? -INFINITY : rng_normal(r);
    case SCORES_ALL_LOW: return -INFINITY;
    case SCORES_NAN: return rng_below(r, 8) ? rng_normal(r) : bits_float(nans[rng_below(r, 5)]);
    case SCORES_HUGE: {
        const float size = rng_uniform(r, 1e38f, 3.4e38f);
        return rng_below(r, 2) ? size : -size;
    }
    case SCORES_TINY: return rng_normal(r) * 0x1p-140f;
    default: return 3.0f * rng_normal(r);
    }
}

/* What masked keys hold: anything. */
static float some_masked_score(rng *r) {
    const float values[] = {poison(), INFINITY, -INFINITY, 3e38f, 0.0f};
    return values[rng_below(r, 5)];
}

/* Scores of a row over [begin, end), element j of the row being key begin + j. */
static void fill_scores(trial *t, operand *s, int64_t row, const fv_keybits *bits, score_kind kind) {
    int64_t high = rng_below(&t->rng, s->cols);
    for (int64_t j = 0; j < s->cols; j++) {
        const bool seen = !bits || attends(bits, s->origin + j);
        *float_before(s, row, j) = !seen ? some_masked_score(&t->rng) : some_score(&t->rng, kind);
        if (seen && kind == SCORES_HIGH && j >= high) { /* the first attended key from there on */
            *float_before(s, row, j) = INFINITY;
            high = s->cols;
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- softmax -- */

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

/* A p of float exp against double's: half a rounding of s - m scales by the argument's size, then 1 ulp; or flushed to
 * 0. */
static bool near_exp(float got, double argument) {
    const double exact = exp(argument);
    return near_double(got, exact,
                       (fabs(argument) + 3.0) * float_eps() * exact + (exact < 0x1.001p-126 ? 0x1.001p-126 : 0.0));
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

/* ------------------------------------------------------------------------------------------------------- weights -- */

enum { WEIGHTS_BEGIN, WEIGHTS_END }; /* t->size */
enum { WEIGHTS_S, WEIGHTS_W, WEIGHTS_BITS };

static void weights_trial(checker *c, int64_t begin, int64_t end, attended kind, score_kind scores, float lse) {
    trial *t = trial_begin(c, "[%" PRId64 ", %" PRId64 ") %s keys attended, scores %s, lse %g", begin, end,
                           attended_words[kind], score_words[scores], (double)lse);
    if (!t)
        return;
    t->size[WEIGHTS_BEGIN] = begin;
    t->size[WEIGHTS_END] = end;
    t->number = lse;
    t->c = some_score_scale(&t->rng);
    operand *s = trial_floats(t, "s", CELL_KEPT, 1, end - begin, end - begin);
    operand *w = trial_floats(t, "w", CELL_BITS, 1, end - begin, end - begin);
    operand *bits = trial_operand(t, "bits", sizeof(uint64_t), CELL_KEPT, 1, FV_SEGMENT / 64, FV_SEGMENT / 64);
    s->origin = w->origin = begin;
    fill_keybits(t, (fv_keybits *)bits->before, kind, begin, end);
    if (end > begin)
        fill_scores(t, s, 0, (const fv_keybits *)bits->before, scores);
    for (int64_t j = 0; j < s->cols; j++) { /* no attended score is above the lse of its row */
        float *score = float_before(s, 0, j);
        if (attends((const fv_keybits *)bits->before, begin + j) && t->c * *score > lse)
            *score = lse < 0.0f ? lse : lse / 2.0f;
    }
    trial_run(t);
}

static void weights_trials(checker *c) {
    static const float lses[] = {0.0f, 12.5f, 80.0f, -INFINITY, NAN, INFINITY, 3.4e38f};
    enum { LSES = sizeof lses / sizeof lses[0] };
    int64_t size[EDGE_SIZES], turn = 0;
    const int sizes = edge_sizes(c->kernel->nr, size);
    for (int64_t begin = 0; begin < FV_SEGMENT; begin += FV_LANES)
        for (int i = 0; i < sizes + 3; i++, turn++) {
            const int64_t more[] = {64, 100, FV_SEGMENT};
            const int64_t length = i < sizes ? size[i] : more[i - sizes];
            const int64_t end = begin + length < FV_SEGMENT ? begin + length : FV_SEGMENT;
            for (int kind = 0; kind < ATTEND_KINDS; kind++)
                weights_trial(c, begin, end, (attended)kind, (score_kind)((turn + kind) % SCORE_KINDS), lses[turn % 3]);
        }
    for (int scores = 0; scores < SCORE_KINDS; scores++)
        for (int i = 0; i < LSES; i++)
            for (int kind = 0; kind < ATTEND_KINDS; kind++) {
                const bool no_keys = lses[i] == -INFINITY; /* then every attended score is -inf */
                weights_trial(c, 16, 59, (attended)kind, no_keys ? SCORES_ALL_LOW : (score_kind)scores, lses[i]);
            }
}

static void weights_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.weights_f32(t->size[WEIGHTS_BEGIN], t->size[WEIGHTS_END], trial_pointer(t, WEIGHTS_S), t->c, t->number,
                            trial_pointer(t, WEIGHTS_BITS), trial_pointer(t, WEIGHTS_W));
}

static void weights_verify(const trial *t) {
    const operand *s = &t->operand[WEIGHTS_S], *w = &t->operand[WEIGHTS_W];
    const fv_keybits *bits = (const fv_keybits *)t->operand[WEIGHTS_BITS].before;
    for (int64_t j = 0; j < s->cols; j++) {
        const float got = float_want(w, 0, j), score = t->c * *float_before(s, 0, j);
        float want = 0.0f;
        if (attends(bits, s->origin + j) && t->number != -INFINITY)
            want = scalar_exp(score - t->number);
        if (float_is_nan(want))
            want = bits_float(CANONICAL_NAN);
        if (float_bits(got) != float_bits(want)) {
            trial_fail(t, "w[%" PRId64 "] is %.9g (0x%08" PRIx32 "), the formula of kernels.h gives %.9g",
                       s->origin + j, (double)got, float_bits(got), (double)want);
            return;
        }
        if (want != 0.0f && !near_exp(got, (double)score - (double)t->number)) {
            trial_fail(t, "w[%" PRId64 "] is %.9g, float64 gives %.17g", s->origin + j, (double)got,
                       exp((double)score - (double)t->number));
            return;
        }
    }
}

const op_check check_weights = {weights_trials, weights_invoke, weights_verify};
