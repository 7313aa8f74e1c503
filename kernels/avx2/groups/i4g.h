/* Words of the format i4g: 16 steps are two rows, a shift and two ANDs make words of 8 steps.
 *
 * group_word makes a word of four steps, of a vector of columns. line has what was loaded for the word before. */
enum { BITS = 4, STEPS = 16 };

#include "avx2/groups/step.h"

GROUPS_INLINE v_words group_word(const uint32_t *b, int64_t row, const int word, v_words *line) {
    if (word % 2 == 0)
        *line = v_words_once(b + word / 2 * row);
    return v_words_and(v_words_right(*line, word % 2 * 4), 0x0f0f0f0f);
}
