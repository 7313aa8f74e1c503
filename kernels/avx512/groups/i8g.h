/* Words of the format i8g (i4g.h), bytes with sign: 16 steps are four rows. */
enum { BITS = 8, STEPS = 16, GROUP_LINES = 4 };

#include "avx512/groups/step.h"

static inline __attribute__((always_inline)) int group_words(const uint32_t *b, int64_t row, const int i,
                                                             const int vectors, v_words lines[][4], v_words w[]) {
    group_line(b + i * row, vectors, lines[i]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v] = v_words_signed(lines[i][v]);
    return i;
}
