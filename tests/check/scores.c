/* Operands that the trials of softmax and weights share (scores.h). */
#include "scores.h"

const char *const attended_words[ATTEND_KINDS] = {"all", "none", "one", "half of", "only outside of"};

const char *const score_words[SCORE_KINDS] = {"normal",   "wide",   "equal", "zeros", "some -inf",
                                              "all -inf", "a +inf", "NaN",   "huge",  "tiny"};

void fill_keybits(trial *t, fv_keybits *bits, attended kind, int64_t begin, int64_t end) {
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

/* Masked keys hold anything. */
static float some_masked_score(rng *r) {
    const float values[] = {poison(), INFINITY, -INFINITY, 3e38f, 0.0f};
    return values[rng_below(r, 5)];
}

void fill_scores(trial *t, operand *s, int64_t row, const fv_keybits *bits, score_kind kind) {
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

bool near_exp(float got, double argument) {
    const double exact = exp(argument);
    return near_double(got, exact,
                       (fabs(argument) + 3.0) * float_eps() * exact + (exact < 0x1.001p-126 ? 0x1.001p-126 : 0.0));
}
