/* Trials of weight_sums. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_BEGIN, SIZE_END, SIZE_STEP }; /* t->size */
enum { OPERAND_S, OPERAND_LSE, OPERAND_SUMS, OPERAND_BITS };

typedef enum bits_kind { BITS_NONE, BITS_ONE_ROW, BITS_EACH_ROW, BITS_KINDS } bits_kind;

static bool attends(const trial *t, int64_t row, int64_t key) {
    const uint64_t *words = (const uint64_t *)t->operand[OPERAND_BITS].before;
    return t->size[SIZE_STEP] < 0 || (words[row * t->size[SIZE_STEP] * (FV_SEGMENT / 64) + key / 64] >> (key % 64) & 1);
}

static void weight_sums_trial(checker *c, int64_t rows, int64_t begin, int64_t end, bits_kind kind, bool special) {
    static const char *const words[] = {"no bits", "bits of one row", "bits of each row"};
    static const float lses[] = {0.5f, 12.5f, -3.0f, 80.0f, -INFINITY, NAN, INFINITY};
    trial *t = trial_begin(c, "rows=%" PRId64 " [%" PRId64 ", %" PRId64 ") %s%s", rows, begin, end, words[kind],
                           special ? ", special values" : "");
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_BEGIN] = begin;
    t->size[SIZE_END] = end;
    t->size[SIZE_STEP] = kind == BITS_NONE ? -1 : kind == BITS_EACH_ROW;
    t->c = some_score_scale(&t->rng);
    operand *s = trial_floats(t, "s", CELL_KEPT, rows, end - begin, some_stride(t, end - begin));
    operand *lse = trial_floats(t, "lse", CELL_KEPT, 1, rows, rows);
    operand *sums = trial_floats(t, "sums", CELL_NAN, 1, end - begin, end - begin);
    const int64_t bit_rows = kind == BITS_EACH_ROW ? rows : kind == BITS_ONE_ROW ? 1 : 0, width = FV_SEGMENT / 64;
    operand *bits = trial_operand(t, "bits", sizeof(uint64_t), CELL_KEPT, bit_rows, width, width);
    s->origin = sums->origin = begin;
    for (int64_t i = 0; i < bit_rows * width; i++)
        ((uint64_t *)bits->before)[i] = rng_u64(&t->rng) | rng_u64(&t->rng);
    fill_uniform(t, s, -100.0f, 0.5f);
    fill_uniform(t, sums, 0.0f, 3.0f);
    if (special)
        sprinkle_specials(t, s, 9);
    for (int64_t i = 0; i < rows; i++) {
        const float of_row = lses[rng_below(&t->rng, special ? 7 : 4)];
        *float_before(lse, 0, i) = of_row;
        for (int64_t j = 0; j < end - begin; j++) { /* no attended score is above the lse of its row */
            float *score = float_before(s, i, j);
            if (attends(t, i, begin + j) && (of_row == -INFINITY || t->c * *score > of_row))
                *score = of_row < 0.0f ? of_row : of_row / 2.0f;
        }
    }
    trial_run(t);
}

static void weight_sums_trials(checker *c) {
    for (int64_t begin = 0; begin <= FV_SEGMENT; begin += FV_LANES)
        for (int64_t end = begin; end <= FV_SEGMENT; end += FV_LANES)
            for (int kind = 0; kind < BITS_KINDS; kind++)
                weight_sums_trial(c, 1 + (begin + end) / FV_LANES % 7, begin, end, (bits_kind)kind,
                                  end / FV_LANES % 3 == 0);
    for (int64_t rows = 0; rows <= 64; rows += 16)
        for (int kind = 0; kind < BITS_KINDS; kind++)
            weight_sums_trial(c, rows, 0, FV_SEGMENT, (bits_kind)kind, false);
}

static void weight_sums_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.weight_sums_f32(t->size[SIZE_ROWS], t->size[SIZE_BEGIN], t->size[SIZE_END], trial_pointer(t, OPERAND_S),
                                t->operand[OPERAND_S].stride, t->c, trial_pointer(t, OPERAND_LSE),
                                t->size[SIZE_STEP] < 0 ? NULL : trial_pointer(t, OPERAND_BITS),
                                t->size[SIZE_STEP] < 0 ? 0 : t->size[SIZE_STEP], trial_pointer(t, OPERAND_SUMS));
}

static void weight_sums_verify(const trial *t) {
    const operand *s = &t->operand[OPERAND_S], *sums = &t->operand[OPERAND_SUMS], *lses = &t->operand[OPERAND_LSE];
    for (int64_t j = 0; j < sums->cols; j++) {
        float want = *float_before(sums, 0, j);
        double exact = (double)want, magnitude = exact;
        for (int64_t i = 0; i < s->rows; i++) {
            const float lse = *float_before(lses, 0, i), score = t->c * *float_before(s, i, j);
            if (!attends(t, i, s->origin + j) || lse == -INFINITY)
                continue;
            const double w = score - lse < -87.33654f ? 0.0 : exp((double)score - (double)lse);
            want += scalar_exp(score - lse);
            exact += w;
            magnitude += exact + (w > 0 ? w * (1 + fabs((double)score - (double)lse)) : 0);
        }
        const float got = float_want(sums, 0, j);
        if (float_bits(got) != float_bits(want) && !(float_is_nan(got) && float_is_nan(want))) {
            trial_fail(t, "sums[%" PRId64 "] is %.9g, row after row gives %.9g", s->origin + j, (double)got,
                       (double)want);
            return;
        }
        if (isfinite(want) && !near_double(got, exact, 2 * float_eps() * magnitude + 0x1p-120)) {
            trial_fail(t, "sums[%" PRId64 "] is %.9g, float64 gives %.17g", s->origin + j, (double)got, exact);
            return;
        }
    }
}

const op_check check_weight_sums = {weight_sums_trials, weight_sums_invoke, weight_sums_verify};
