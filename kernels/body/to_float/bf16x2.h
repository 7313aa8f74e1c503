/* Words of the format bf16x2. An AND and a shift make floats of 32 elements in 64 bytes, without a shuffle. */
typedef float format_word;
enum { PER_WORD = 2, SCALED = 0 };
static inline vf format_load(const format_word *b, const float *scales, const int element) {
    (void)scales;
    return element ? v_pair_second(b) : v_pair_first(b);
}
