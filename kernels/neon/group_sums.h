/* Sums of products of a tile of multiply_groups.h by SDOT or SMLAL (simd/int8_neon.h): count steps of a group, w without
 * its zero. */
#if defined FV_I8_PLANES && defined FV_GROUP_LOW
enum { GROUP_OF_FOUR = 4 }; /* vectors of a tile of four rows */
#else
enum { GROUP_OF_FOUR = 2 };
#endif

GROUP_INLINE v_sums group_add(v_sums sums, vi8 w, const fv_i8_word *x) {
#if defined FV_I8_PLANES && defined FV_GROUP_LOW
    sums.low = vdotq_laneq_s32(sums.low, w, vld1q_s8((const int8_t *)x), 3);
    return sums;
#else
    return v_sums_add(sums, w, x);
#endif
}

GROUP_INLINE void group_sum(const fv_i8_word *const *a, const uint8_t *words, int64_t row, int64_t t, int64_t count,
                            const int rows, const int vectors, int32x4_t to[GROUP_ROWS][GROUP_VECTORS]) {
    v_sums sums[GROUP_ROWS][GROUP_VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[i][v] = v_no_sums();
    for (int64_t s = 0; s < count; s += GROUP_BLOCK) {
        const uint8_t *from = words + group_row(t + s) * row;
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const vi8 w = v_i8(vreinterpretq_f32_s8(group_four(from + v * GROUP_BLOCK, row, t + s, k)));
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++)
                    sums[i][v] = group_add(sums[i][v], w, a[i] + 1 + s / 4 + k);
            }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            to[i][v] = v_sums_whole(sums[i][v]);
}
