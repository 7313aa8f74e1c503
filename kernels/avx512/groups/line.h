/* Shared by the files of formats: vectors of a row of words, loaded in the order of memory. */
static inline __attribute__((always_inline)) void group_line(const uint32_t *b, const int vectors, v_words line[]) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        line[v] = v_words_at(b + v * FV_W);
}
