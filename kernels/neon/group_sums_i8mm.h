/* Sums of products of a tile of multiply_groups.h by SMMLA: two rows by two columns, eight steps at once. What
 * group_sum is: group_sums.h. */
enum { GROUP_PLANES = 2 };
#ifdef FV_GROUP_LOW
enum { GROUP_FIRST = 1, GROUP_OF_FOUR = 4 }; /* plane, and vectors of a tile of four rows */
#else
enum { GROUP_FIRST = 0, GROUP_OF_FOUR = 2 };
#endif

/* Eight steps of two rows, of the low plane or both: half k / 2 of a block. */
GROUP_INLINE void group_two_rows(const uint32_t *first, const uint32_t *second, const int k,
                                 int8x16_t planes[GROUP_PLANES]) {
#pragma GCC unroll 2
    for (int p = GROUP_FIRST; p < GROUP_PLANES; p++) {
        const int64_t at = k + (p - GROUP_FIRST) * (FV_GROUP_WORDS / 2);
        planes[p] = vcombine_s8(vld1_s8((const int8_t *)(first + at)), vld1_s8((const int8_t *)(second + at)));
    }
}

/* Sums of two columns, and of the next two, as those of a row. */
GROUP_INLINE int32x4_t group_row_of(int32x4_t low, int32x4_t high, const int second) {
    const int64x2_t a = vreinterpretq_s64_s32(low), b = vreinterpretq_s64_s32(high);
    return vreinterpretq_s32_s64(second ? vzip2q_s64(a, b) : vzip1q_s64(a, b));
}

GROUP_INLINE void group_sum(const uint32_t *const *a, const uint8_t *words, int64_t row, int64_t t, int64_t count,
                            const int rows, const int vectors, int32x4_t to[GROUP_ROWS][GROUP_VECTORS]) {
    int32x4_t sums[GROUP_PLANES][GROUP_ROWS / 2][2 * GROUP_VECTORS];
#pragma GCC unroll 2
    for (int p = 0; p < GROUP_PLANES; p++)
#pragma GCC unroll 2
        for (int i = 0; i < rows / 2; i++)
#pragma GCC unroll 8
            for (int v = 0; v < 2 * vectors; v++)
                sums[p][i][v] = vdupq_n_s32(0);
    for (int64_t s = 0; s < count; s += GROUP_BLOCK) {
        const uint8_t *from = words + group_row(t + s) * row;
        const int64_t at = FV_GROUP_HEAD + s / GROUP_BLOCK * GROUP_STEP;
#pragma GCC unroll 2
        for (int k = 0; k < 4; k += 2) {
            int8x16_t x[GROUP_ROWS / 2][GROUP_PLANES];
#pragma GCC unroll 2
            for (int i = 0; i < rows / 2; i++)
                group_two_rows(a[2 * i] + at, a[2 * i + 1] + at, k, x[i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const int32x4_t w = vreinterpretq_s32_s8(group_four(from + v * GROUP_BLOCK, row, t + s, k)),
                                next = vreinterpretq_s32_s8(group_four(from + v * GROUP_BLOCK, row, t + s, k + 1));
                const int8x16_t columns[2] = {vreinterpretq_s8_s32(vzip1q_s32(w, next)),
                                              vreinterpretq_s8_s32(vzip2q_s32(w, next))};
#pragma GCC unroll 2
                for (int p = GROUP_FIRST; p < GROUP_PLANES; p++)
#pragma GCC unroll 2
                    for (int i = 0; i < rows / 2; i++)
#pragma GCC unroll 2
                        for (int h = 0; h < 2; h++)
                            sums[p][i][2 * v + h] = vmmlaq_s32(sums[p][i][2 * v + h], x[i][p], columns[h]);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            int32x4_t both[2];
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++)
                both[h] = vaddq_s32(vshlq_n_s32(sums[0][i / 2][2 * v + h], 7), sums[1][i / 2][2 * v + h]);
            to[i][v] = group_row_of(both[0], both[1], i % 2);
        }
}
