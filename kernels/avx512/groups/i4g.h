/* Words of the format i4g: 16 steps are two rows, a shift and two ANDs make words of 8 steps.
 *
 * group_words makes a word, of four channels, the i-th that it makes of STEPS steps, from lines that it loads with the
 * first that needs them, and returns which one it is. */
enum { BITS = 4, STEPS = 16, GROUP_LINES = 2 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) int group_words(const uint32_t *b, int64_t row, const int i,
                                                             const int vectors, v_words lines[][4], v_words w[]) {
    const uint32_t mask = 0x0f0f0f0f;
    if (i % 2 == 0)
        group_line(b + i / 2 * row, vectors, lines[i / 2]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v] = v_words_and(v_words_right(lines[i / 2][v], i % 2 * 4), mask);
    return i;
}
