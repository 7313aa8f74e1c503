/* unpack: an operand's elements as floats (kernels.h has the contract). FV_WORDS: the format's, body/format/<format>.h.
 * Bound: the stores. */
#include FV_WORDS

void FV_NAME(const fv_operand *b, float *y, int64_t ldy) {
    const format_word *row = b->data;
    assert(b->columns >= 1 && (b->columns % FV_LANES == 0 || FV_W == 1) && (b->steps == 1 || ldy >= b->columns));
    for (int64_t t = 0; t < b->steps; t += PER_WORD, row += b->row, y += PER_WORD * ldy)
        for (int e = 0; e < PER_WORD && t + e < b->steps; e++)
            for (int64_t j = 0; j < b->columns; j += FV_W)
                v_store(y + e * ldy + j, format_load(row + j, SCALED ? b->scales + j : NULL, e));
}
