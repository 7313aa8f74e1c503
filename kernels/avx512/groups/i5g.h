/* Words of the format i5g (i4g.h): 32 steps are five rows, which have words 0 to 4 in the lower bits of each byte. The
 * upper ones of rows 0 and 1 have word 5, those of rows 2 and 3 word 6, lowest bits first, and those of row 4 and the
 * highest of rows 1 and 3 word 7. Each line is loaded once, in the order of memory, which words are not made in. */
enum { BITS = 5, STEPS = 32, GROUP_LINES = 3 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) int group_words(const uint32_t *b, int64_t row, const int i,
                                                             const int vectors, v_words lines[][4], v_words w[]) {
    static const int words[] = {0, 1, 5, 2, 3, 6, 4, 7}, places[] = {0, 1, 1, 0, 2, 2, 0, 0};
    const uint32_t mask = 0x1f1f1f1f, three = 0x07070707;
    const int word = words[i], line = places[i];
    if (word < 5)
        group_line(b + word * row, vectors, lines[line]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        if (word < 5) {
            w[v] = v_words_and(lines[line][v], mask);
            continue;
        }
        const v_words upper = v_words_and(v_words_right(lines[0][v], 5), three);
        w[v] = word < 7 ? v_words_or(upper, v_words_right(lines[line][v], 2), 0x18181818)
                        : v_words_or(v_words_or(upper, v_words_right(lines[1][v], 4), 0x08080808),
                                     v_words_right(lines[2][v], 3), 0x10101010);
    }
    return word;
}
