/* Words of the format i8g (i4g.h), bytes with sign: 16 steps are four rows. */
enum { BITS = 8, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]) {
    (void)half;
    w[0] = v_words_signed(v_words_at(b + 2 * eight * row));
    w[1] = v_words_signed(v_words_at(b + (2 * eight + 1) * row));
}
