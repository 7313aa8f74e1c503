/* Words of the format i6g (i4g.h): 16 steps are three rows, which have words 0 to 2 in the lower bits of each byte, and
 * of word 3 two bits each in the upper ones. */
enum { BITS = 6, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]) {
    const uint32_t mask = 0x3f3f3f3f;
    (void)half;
    if (eight == 0) {
        w[0] = v_words_and(v_words_at(b), mask);
        w[1] = v_words_and(v_words_at(b + row), mask);
        return;
    }
    const v_words last = v_words_at(b + 2 * row);
    w[0] = v_words_and(last, mask);
    w[1] = v_words_right(v_words_without(v_words_at(b), mask), 2);
    w[1] = v_words_right(v_words_or(w[1], v_words_without(v_words_at(b + row), mask)), 2);
    w[1] = v_words_right(v_words_or(w[1], v_words_without(last, mask)), 2);
}
