/* Words of the format f32. */
typedef float format_word;
enum { PER_WORD = 1, SCALED = 0 };
static inline vf format_load(const format_word *b, const float *scales, const int element) {
    (void)scales;
    (void)element;
    return v_load(b);
}
