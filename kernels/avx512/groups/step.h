/* Shared by the files of formats: vectors of a row of words, loaded in the order of memory, and the steps of whole rows
 * of words with a few rows of X, all vectors' bytes for four steps together. */
enum { FEW_STEPS = STEPS };

static inline __attribute__((always_inline)) void group_line(const uint32_t *b, const int vectors, v_words line[]) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        line[v] = v_words_at(b + v * FV_W);
}

static inline __attribute__((always_inline)) int group_words(const uint32_t *b, int64_t row, const int i,
                                                             const int vectors, v_words lines[][4], v_words w[]);

FEW_INLINE void few_step(v_dots dots[][MOST_VECTORS], const uint32_t *b, int64_t row, v_words table, const char *x,
                         int64_t lda, const int rows, const int nv) {
    v_words lines[GROUP_LINES][MOST_VECTORS], w[MOST_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < STEPS / 4; i++) {
        const int word = group_words(b, row, i, nv, lines, w), at = word / 4 * FV_GROUP_WORDS + word % 4;
#pragma GCC unroll 4
        for (int v = 0; v < nv && TABLE; v++)
            w[v] = v_words_lookup(table, w[v]);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            v_dots_add(dots[r], w, (const uint32_t *)(const void *)(x + r * lda) + at, nv);
    }
}
