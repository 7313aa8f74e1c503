/* Integers of fewer bits as words of i8g (groups.h) on scalar: the definition. */
void FV_NAME(const fv_operand *b, uint32_t *y, int64_t ldy) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales = fv_scales_row(extra, b->width);
    assert(b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width && ldy >= b->columns);
    for (int64_t t = 0; t < b->steps; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float *scale = b->scales + t / group * scales + b->first + j;
            const int zero = extra == FV_GROUP_zero ? (int)scale[b->width] : fv_group_zero(b->format, extra);
            int8_t *to = (int8_t *)(y + t / 4 * ldy + j) + t % 4;
            *to = (int8_t)(fv_group_integer(b, t, j) - zero);
        }
}
