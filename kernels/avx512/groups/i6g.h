/* Words of the format i6g (i4g.h): 16 steps are three rows, the last of which has the upper bits: those of words i in
 * bits 2 i and 2 i + 1 of each byte. */
enum { BITS = 6, STEPS = 16, GROUP_LINES = 3 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x30303030;
    (void)half;
#pragma GCC unroll 4
    for (int line = 0; line < GROUP_LINES && i == 0; line++)
        group_line(b + line * row, vectors, lines[line]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v][i] = v_words_or(v_words_and(v_words_right(lines[i / 2][v], i % 2 * 4), mask),
                             v_words_right(lines[2][v], 2 * i - 4), more);
}
