/* Words of the format i6g (i4g.h): 16 steps are three rows, which have words 0 to 2 in the lower bits of each byte, and
 * of word 3 two bits each in the upper ones. */
enum { BITS = 6, STEPS = 16, GROUP_LINES = 3 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) int group_words(const uint32_t *b, int64_t row, const int i,
                                                             const int vectors, v_words lines[][4], v_words w[]) {
    const uint32_t mask = 0x3f3f3f3f, more = 0xc0c0c0c0;
    if (i < 3)
        group_line(b + i * row, vectors, lines[i]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        if (i < 3) {
            w[v] = v_words_and(lines[i][v], mask);
            continue;
        }
        const v_words low = v_words_right(v_words_and(lines[0][v], more), 2),
                      middle = v_words_right(v_words_or(low, lines[1][v], more), 2);
        w[v] = v_words_right(v_words_or(middle, lines[2][v], more), 2);
    }
    return i;
}
