/* Words of the format i5g (i4g.h): 32 steps are five rows, which have words 0 to 4 in the lower bits of each byte. The
 * upper ones of rows 0 and 1 have word 5, those of rows 2 and 3 word 6, lowest bits first, and those of row 4 and the
 * highest of rows 1 and 3 word 7. */
enum { BITS = 5, STEPS = 32 };

#include "avx2/groups/step.h"

GROUPS_INLINE v_words group_word(const uint32_t *b, int64_t row, const int word, v_words *line) {
    (void)line;
    const uint32_t mask = 0x1f1f1f1f, two = 0x60606060, one = 0x80808080;
#define GROUP_LINE(line) v_words_at(b + (line)*row)
#define GROUP_UPPER(line) v_words_right(v_words_without(GROUP_LINE(line), mask), 5)
    if (word < 5)
        return v_words_and(GROUP_LINE(word), mask);
    if (word < 7)
        return v_words_or(GROUP_UPPER(2 * word - 10), v_words_right(v_words_and(GROUP_LINE(2 * word - 9), two), 2));
    const v_words last = v_words_or(v_words_right(v_words_and(GROUP_LINE(1), one), 1), v_words_and(GROUP_LINE(3), one));
    return v_words_or(GROUP_UPPER(4), v_words_right(last, 3));
}
