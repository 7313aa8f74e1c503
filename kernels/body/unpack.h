/* unpack: the elements of an operand as floats (kernels.h has the contract). FV_WORDS: body/to_float/<format>.h.
 * Bound: the stores. */
#include FV_WORDS

void FV_NAME(const fv_operand *b, float *y, int64_t ldy) {
    const format_word *row = b->data;
    const float *scales = SCALED ? b->scales : NULL;
    const int64_t columns = b->columns, steps = b->steps, ldb = b->row;
    assert(columns >= 1 && (columns % FV_LANES == 0 || FV_W == 1) && (steps == 1 || ldy >= columns));
    for (int64_t t = 0; t < steps; t += PER_WORD, row += ldb, y += PER_WORD * ldy)
        for (int e = 0; e < PER_WORD && t + e < steps; e++)
            for (int64_t j = 0; j < columns; j += FV_W)
                v_store(y + e * ldy + j, format_load(row + j, SCALED ? scales + j : NULL, e));
}
