/* Words of the format i5g (i4g.h): 32 steps are five rows, which have words 0 to 4 in the lower bits of each byte. The
 * upper ones of rows 0 and 1 have word 5, those of rows 2 and 3 word 6, lowest bits first, and those of row 4 and the
 * highest of rows 1 and 3 word 7. half: of the 32 steps; the first fetches all rows. */
enum { BITS = 5, STEPS = 32, GROUP_LINES = 3 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]) {
    const uint32_t mask = 0x1f1f1f1f, three = 0x07070707;
    for (int64_t word = i > 0 || half || vectors < 4 ? 5 * row : 0; word < 5 * row; word += 16) /* one stream */
        __builtin_prefetch(b + word, 0, 3);
    const int low = half ? i == 0 ? 4 : i == 3 ? 4 : 2 * i - 2 : i;
    group_line(b + low * row, vectors, lines[0]);
    if (half && i > 0)
        group_line(b + (i == 3 ? 1 : low + 1) * row, vectors, lines[1]);
    if (half && i == 3)
        group_line(b + 3 * row, vectors, lines[2]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        if (!half || i == 0) {
            w[v][i] = v_words_and(lines[0][v], mask);
            continue;
        }
        const v_words upper = v_words_and(v_words_right(lines[0][v], 5), three);
        w[v][i] = i < 3 ? v_words_or(upper, v_words_right(lines[1][v], 2), 0x18181818)
                        : v_words_or(v_words_or(upper, v_words_right(lines[1][v], 4), 0x08080808),
                                     v_words_right(lines[2][v], 3), 0x10101010);
    }
}
