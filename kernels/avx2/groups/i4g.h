/* Words of the format i4g: 16 steps are two rows, a shift and two ANDs make words of 8 steps.
 *
 * group_words makes words of eight steps, the first or second of 16, of a vector of columns. */
enum { BITS = 4, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]) {
    const uint32_t mask = 0x0f0f0f0f;
    const v_words line = v_words_at(b + eight * row);
    (void)half;
    w[0] = v_words_and(line, mask);
    w[1] = v_words_and(v_words_right(line, 4), mask);
}
