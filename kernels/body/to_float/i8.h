/* Words of the format i8, without the scales of steps, which products multiply into A. */
#define FV_STEP_SCALES
typedef int8_t format_word;
enum { PER_WORD = 1, SCALED = 0 };
static inline vf format_load(const format_word *b, const float *scales, const int element) {
    (void)scales;
    (void)element;
    return v_load_i8(b);
}
