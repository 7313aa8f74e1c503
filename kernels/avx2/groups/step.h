/* Shared by the files of formats: the steps of whole rows of words with a few rows of X, one word of four steps after
 * the other, of all vectors. */
enum { FEW_STEPS = STEPS };

GROUPS_INLINE v_words group_word(const uint32_t *b, int64_t row, const int word, v_words *line);

FEW_INLINE void few_step(v_dots dots[][MOST_VECTORS], const uint32_t *b, int64_t row, v_words table, const char *x,
                         int64_t lda, const int rows, const int nv) {
    v_words w[MOST_VECTORS], lines[MOST_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < STEPS / 4; i++) {
        const int word = STEPS == 32 ? (int[]){0, 1, 5, 2, 3, 6, 4, 7}[i] : i; /* of 5 bits as their rows come */
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            w[v] = group_word(b + v * FV_W, row, word, &lines[v]);
            w[v] = TABLE ? v_words_lookup(table, w[v]) : w[v];
        }
#pragma GCC unroll 2
        for (int part = 0; part < V_PARTS; part++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                v_dots_add(dots[r], w, (const uint32_t *)(const void *)(x + r * lda), word, part, nv);
    }
}
