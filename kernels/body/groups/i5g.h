/* Words of the format i5g: 32 steps are five rows, the last of which has the fifth bits: those of words i in bits i of
 * each byte. half: of the 32 steps. */
enum { BITS = 5, STEPS = 32 };

static inline void group_words(const uint32_t *b, int64_t row, const int half, v_words w[4]) {
    const uint32_t mask = 0x0f0f0f0f, more = 0x10101010;
    v_words fifth = v_words_load(b + 4 * row);
    if (half) {
        fifth = v_words_right(fifth, 4);
        b += 2 * row;
    }
    for (int i = 0; i < 2; i++) {
        const v_words eight = v_words_load(b + i * row);
        w[2 * i] = v_words_or(v_words_and(eight, mask), v_words_right(fifth, 2 * i - 4), more);
        w[2 * i + 1] = v_words_or(v_words_and(v_words_right(eight, 4), mask), v_words_right(fifth, 2 * i - 3), more);
    }
}
