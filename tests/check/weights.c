/* Trials of weights. */
#include "scores.h"

#include <inttypes.h>

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
