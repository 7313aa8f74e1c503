/* Words of the format i8g (i4g.h), bytes with sign: 16 steps are four rows. */
enum { BITS = 8, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE v_words group_word(const uint32_t *b, int64_t row, const int word, v_words *line) {
    (void)line;
    return v_words_signed(v_words_at(b + word * row));
}
