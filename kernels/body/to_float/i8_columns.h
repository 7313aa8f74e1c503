/* Words of the format i8_columns: an integer times the scale of its column, rounded once. */
typedef int8_t format_word;
enum { PER_WORD = 1, SCALED = 1 };
static inline vf format_load(const format_word *b, const float *scales, const int element) {
    (void)element;
    return v_mul(v_load_i8(b), v_load(scales));
}
