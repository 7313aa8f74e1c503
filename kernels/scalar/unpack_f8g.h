/* Floats of 8 bits in groups as floats (groups.h) on scalar: the definition. */
void FV_NAME(const fv_operand *b, float *y, int64_t ldy) {
    assert(b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width);
    for (int64_t t = 0; t < b->steps; t++)
        for (int64_t j = 0; j < b->columns; j++)
            y[t * ldy + j] = b->scales[t / b->group.steps * b->width + b->first + j] *
                             fv_e4m3_float((uint8_t)fv_group_integer(b, t, j));
}
