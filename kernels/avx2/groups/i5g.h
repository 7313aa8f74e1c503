/* Words of the format i5g (i4g.h): 32 steps are five rows, the last of which has the fifth bits: those of words i in
 * bits i of each byte. half: of the 32 steps. */
enum { BITS = 5, STEPS = 32 };

#include "avx2/groups/step.h"

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x10101010;
    const v_words line = v_words_at(b + (2 * half + eight) * row), all = v_words_at(b + 4 * row),
                  fifth = half ? v_words_right(all, 4) : all;
    w[0] = v_words_or(v_words_and(line, mask), v_words_right(fifth, 2 * eight - 4), more);
    w[1] = v_words_or(v_words_and(v_words_right(line, 4), mask), v_words_right(fifth, 2 * eight - 3), more);
}
