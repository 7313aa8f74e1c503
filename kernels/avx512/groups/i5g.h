/* Words of the format i5g (i4g.h): 32 steps are five rows, the last of which has the fifth bits: those of words i in
 * bits i of each byte. half: of the 32 steps; the first fetches all rows in the order of memory. */
enum { BITS = 5, STEPS = 32, GROUP_LINES = 3 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x10101010;
    if (i == 0) {
        for (int64_t word = half || vectors < 4 ? 5 * row : 0; word < 5 * row; word += 16) /* one stream */
            __builtin_prefetch(b + word, 0, 3);
        group_line(b + 2 * half * row, vectors, lines[0]);
        group_line(b + (2 * half + 1) * row, vectors, lines[1]);
        group_line(b + 4 * row, vectors, lines[2]);
        if (half)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                lines[2][v] = v_words_right(lines[2][v], 4);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v][i] = v_words_or(v_words_and(v_words_right(lines[i / 2][v], i % 2 * 4), mask),
                             v_words_right(lines[2][v], i - 4), more);
}
