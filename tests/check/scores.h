/* Scores of a row, and which of its keys are attended: operands that the trials of softmax and weights share. */
#ifndef FOVEA_TESTS_SCORES_H
#define FOVEA_TESTS_SCORES_H

#include "check.h"

typedef enum attended { ATTEND_ALL, ATTEND_NONE, ATTEND_ONE, ATTEND_HALF, ATTEND_OUTSIDE, ATTEND_KINDS } attended;
extern const char *const attended_words[ATTEND_KINDS];

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
extern const char *const score_words[SCORE_KINDS];

static inline bool attends(const fv_keybits *bits, int64_t key) { return bits->word[key / 64] >> (key % 64) & 1; }

/* Bits of a row: keys of [begin, end) by kind, those outside of it mostly set, since they must not count. */
void fill_keybits(trial *t, fv_keybits *bits, attended kind, int64_t begin, int64_t end);

/* Scores of a row over [begin, end), element j of the row being key begin + j. */
void fill_scores(trial *t, operand *s, int64_t row, const fv_keybits *bits, score_kind kind);

/* A p of float exp against double's: half a rounding of s - m scales by the argument's size, then 1 ulp; or flushed to
 * 0. */
bool near_exp(float got, double argument);

#endif
