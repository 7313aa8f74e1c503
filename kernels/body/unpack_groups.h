/* Integers in groups, i8g, as floats (groups.h). Bound: the stores. */
void FV_NAME(const fv_operand *b, float *y, int64_t ldy) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t n = b->columns, steps = b->steps, group = b->group.steps;
    const float *scales = b->scales + b->first, *more = scales + b->width;
    assert(n >= 1 && steps >= 1 && b->first + n <= b->width && n % FV_LANES == 0 && (steps == 1 || ldy >= n));
    for (int64_t t = 0, end; t < steps; t = end) {
        const uint32_t *from = (const uint32_t *)b->data + fv_group_skipped(b->group, t);
        end = steps - t < group ? steps : t + group;
        for (; t < end; t += 4, y += 4 * ldy)
            for (int64_t j = 0; j < n; j += FV_W) {
                const vw word = w_load(from + t / 4 * b->row + j);
                const vf scale = v_load(scales + j), other = extra ? v_load(more + j) : v_set1(0.0f);
                const vw zero = w_of_float(extra == FV_GROUP_zero ? other : v_set1(0.0f));
                for (int e = 0; e < 4 && t + e < end; e++) {
                    vf number = v_mul(scale, w_float(w_sub(w_byte(word, e), zero)));
                    if (extra == FV_GROUP_minimum) {
                        __asm__ volatile(""); /* clang would add -0 without a branch: wrong where zeros round down */
                        number = v_add(number, other);
                    }
                    v_store(y + e * ldy + j, number);
                }
            }
        scales += fv_scales_row(extra, b->width);
        more += fv_scales_row(extra, b->width);
    }
}
