/* Words of the format i5g (i4g.h): 32 steps are five rows, the last of which has the fifth bits: those of words i in
 * bits i of each byte. half: of the 32 steps; the first fetches all rows in the order of memory. */
enum { BITS = 5, STEPS = 32, GROUP_LINES = 3 };

#include "avx512/groups/line.h"

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x10101010;
    if (i == 0) {
        for (int line = half ? 5 : 0; line < 5; line++)
            for (int v = 0; v < vectors * FV_W; v += 16)
                __builtin_prefetch(b + line * row + v, 0, 3);
        group_line(b + (half ? 2 : 0) * row, vectors, lines[0]);
        group_line(b + (half ? 3 : 1) * row, vectors, lines[1]);
        group_line(b + 4 * row, vectors, lines[2]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const v_words fifth = half ? v_words_right(lines[2][v], 4) : lines[2][v];
        w[v][i] =
            v_words_or(v_words_and(v_words_right(lines[i / 2][v], i % 2 * 4), mask), v_words_right(fifth, i - 4), more);
    }
}
