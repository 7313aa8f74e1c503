/* Words of the format i8g, bytes with sign: 16 steps are four rows. */
enum { BITS = 8, STEPS = 16 };

static inline void group_words(const uint32_t *b, int64_t row, const int half, v_words w[4]) {
    (void)half;
    for (int i = 0; i < 4; i++)
        w[i] = v_words_signed(v_words_load(b + i * row));
}
