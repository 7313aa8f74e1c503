/* Words of the format i4g: 16 steps are two rows, a shift and two ANDs make words of 8 steps.
 *
 * group_words makes words i, of four channels, of 16 steps, one after the other, from lines that it loads with the
 * first that needs them. */
enum { BITS = 4, STEPS = 16, GROUP_LINES = 2 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]) {
    const uint32_t mask = 0x0f0f0f0f;
    (void)half;
    if (i % 2 == 0)
        group_line(b + i / 2 * row, vectors, lines[i / 2]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v][i] = v_words_and(v_words_right(lines[i / 2][v], i % 2 * 4), mask);
}
