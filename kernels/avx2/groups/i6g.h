/* Words of the format i6g (i4g.h): 16 steps are three rows, the last of which has the upper bits: those of words i in
 * bits 2 i and 2 i + 1 of each byte. */
enum { BITS = 6, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x30303030;
    const v_words line = v_words_at(b + eight * row), upper = v_words_at(b + 2 * row);
    (void)half;
    w[0] = v_words_or(v_words_and(line, mask), v_words_right(upper, 4 * eight - 4), more);
    w[1] = v_words_or(v_words_and(v_words_right(line, 4), mask), v_words_right(upper, 4 * eight - 2), more);
}
