/* unpack: elements of an operand as floats (see kernels.h). FV_WORDS: body/to_float/<format>.h. Bound: the stores. */
#include FV_WORDS

void FV_NAME(const fv_operand *b, float *y, int64_t ldy) {
    const format_word *row = b->data;
    const int64_t columns = b->columns, steps = b->steps, ldb = b->row;
    assert(columns >= 1 && (columns % FV_LANES == 0 || FV_W == 1) && (steps == 1 || ldy >= columns));
    enum { TOGETHER = FV_W == 1 ? 1 : FV_LANES }; /* columns, whose loop compilers unroll */
    for (int64_t t = 0; t < steps; t += PER_WORD, row += ldb, y += PER_WORD * ldy)
        for (int64_t j = 0; j < columns; j += TOGETHER)
            for (int64_t i = j; i < j + TOGETHER; i += FV_W)
                for (int e = 0; e < PER_WORD && (e == 0 || t + e < steps); e++)
                    v_store(y + e * ldy + i, format_load(row + i, SCALED ? b->scales + i : NULL, e));
}
