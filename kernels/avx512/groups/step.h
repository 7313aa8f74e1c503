/* Shared by the files of formats: vectors of a row of words, loaded in the order of memory, and 16 steps with a few
 * rows, all vectors' bytes for four steps together. */
static inline __attribute__((always_inline)) void group_line(const uint32_t *b, const int vectors, v_words line[]) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        line[v] = v_words_at(b + v * FV_W);
}

static inline __attribute__((always_inline)) void group_words(const uint32_t *b, int64_t row, const int half,
                                                              const int i, const int vectors, v_words lines[][4],
                                                              v_words w[][4]);

FEW_INLINE void few_step(v_dots dots[][MOST_VECTORS], const uint32_t *b, int64_t row, const int half, v_words table,
                         const char *x, int64_t lda, const int rows, const int nv) {
    v_words lines[GROUP_LINES][MOST_VECTORS], w[MOST_VECTORS][4];
#pragma GCC unroll 4
    for (int word = 0; word < 4; word++) {
        group_words(b, row, half, word, nv, lines, w);
#pragma GCC unroll 4
        for (int v = 0; v < nv && TABLE; v++)
            w[v][word] = v_words_lookup(table, w[v][word]);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            v_dots_add(dots[i], w, (const uint32_t *)(const void *)(x + i * lda), word, BITS, nv);
    }
}
