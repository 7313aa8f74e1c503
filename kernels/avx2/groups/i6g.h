/* Words of the format i6g (i4g.h): 16 steps are three rows, which have words 0 to 2 in the lower bits of each byte, and
 * of word 3 two bits each in the upper ones. */
enum { BITS = 6, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE v_words group_word(const uint32_t *b, int64_t row, const int word, v_words *line) {
    (void)line;
    const uint32_t mask = 0x3f3f3f3f;
    if (word < 3)
        return v_words_and(v_words_at(b + word * row), mask);
    v_words last = v_words_right(v_words_without(v_words_at(b), mask), 2);
    last = v_words_right(v_words_or(last, v_words_without(v_words_at(b + row), mask)), 2);
    return v_words_right(v_words_or(last, v_words_without(v_words_at(b + 2 * row), mask)), 2);
}
