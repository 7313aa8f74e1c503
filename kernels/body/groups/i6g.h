/* Words of the format i6g: 16 steps are three rows, the last of which has the upper bits: those of words i in bits 2 i
 * and 2 i + 1 of each byte. */
enum { BITS = 6, STEPS = 16 };

static inline void group_words(const uint32_t *b, int64_t row, const int half, v_words w[4]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x30303030;
    const v_words upper = v_words_load(b + 2 * row);
    (void)half;
    for (int i = 0; i < 2; i++) {
        const v_words eight = v_words_load(b + i * row);
        w[2 * i] = v_words_or(v_words_and(eight, mask), v_words_right(upper, 4 * i - 4), more);
        w[2 * i + 1] = v_words_or(v_words_and(v_words_right(eight, 4), mask), v_words_right(upper, 4 * i - 2), more);
    }
}
