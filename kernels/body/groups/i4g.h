/* Words of the format i4g: 16 steps are two rows, a shift and two ANDs make words of 8 steps. */
enum { BITS = 4, STEPS = 16 };

static inline void group_words(const uint32_t *b, int64_t row, const int half, v_words w[4]) {
    const uint32_t mask = 0x0f0f0f0f;
    (void)half;
    for (int i = 0; i < 2; i++) {
        const v_words eight = v_words_load(b + i * row);
        w[2 * i] = v_words_and(eight, mask);
        w[2 * i + 1] = v_words_and(v_words_right(eight, 4), mask);
    }
}
