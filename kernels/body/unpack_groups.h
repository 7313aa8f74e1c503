/* Integers in groups, i8g, as floats (groups.h); FV_FLOATS: floats of 8 bits, f8g. Bound: the stores. */
#ifdef FV_FLOATS
/* Byte `byte` of each word: a significand of 4 bits, exact, times a power of two, which has the sign. */
static inline vf unpacked(vw word, const int byte, vw zero) {
    (void)zero;
    const vw all = w_byte(word, byte), size = w_and(all, w_set1(0x7f)), exponent = w_right(size, 3),
             normal = w_right(w_sub(exponent, w_set1((uint32_t)-15)), 4), /* 0 where the exponent is 0, else 1 */
        none = w_sub(w_set1(0), w_right(w_sub(size, w_set1((uint32_t)-1)), 7)),
             power = w_left(w_sub(w_sub(exponent, normal), w_set1((uint32_t)-118)), 23);
    const vw factor = w_or(w_or(power, w_and(all, w_set1(0x80000000))), w_and(none, w_set1(0x7fc00000)));
    return v_mul(w_float(w_or(w_and(size, w_set1(7)), w_left(normal, 3))), w_as_float(factor));
}
#else
static inline vf unpacked(vw word, const int byte, vw zero) { return w_float(w_sub(w_byte(word, byte), zero)); }
#endif

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
                    vf number = v_mul(scale, unpacked(word, e, zero));
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
