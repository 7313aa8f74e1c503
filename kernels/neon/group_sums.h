/* Sums of products of a tile of multiply_groups.h by SDOT or SMLAL (simd/int8_neon.h): count steps of a group, w
 * without its zero. */
#if defined FV_I8_PLANES && defined FV_GROUP_LOW
enum { GROUP_OF_FOUR = 4 }; /* vectors of a tile of four rows */
#else
enum { GROUP_OF_FOUR = 2 };
#endif

#ifdef FV_I8_PLANES
GROUP_INLINE int32x4_t group_dot(int32x4_t sum, int8x16_t w, int8x16_t x, const int k) {
    switch (k) { /* a lane is part of the instruction */
    case 0: return vdotq_laneq_s32(sum, w, x, 0);
    case 1: return vdotq_laneq_s32(sum, w, x, 1);
    case 2: return vdotq_laneq_s32(sum, w, x, 2);
    default: return vdotq_laneq_s32(sum, w, x, 3);
    }
}
#endif

/* Adds the products of w with words k of a block of x. */
GROUP_INLINE v_sums group_add(v_sums sums, vi8 w, const uint32_t *x, const int k) {
#ifdef FV_I8_PLANES
#ifndef FV_GROUP_LOW
    sums.high = group_dot(sums.high, w, vld1q_s8((const int8_t *)x), k);
    x += FV_GROUP_WORDS / 2;
#endif
    sums.low = group_dot(sums.low, w, vld1q_s8((const int8_t *)x), k);
    return sums;
#else
    return int8_add(sums, w, int8_broadcast(x + 2 * k), int8_broadcast(x + 2 * k + 1));
#endif
}

GROUP_INLINE void group_sum(const uint32_t *const *a, const uint8_t *words, int64_t row, int64_t t, int64_t count,
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
                    sums[i][v] = group_add(sums[i][v], w, a[i] + FV_GROUP_HEAD + s / GROUP_BLOCK * GROUP_STEP, k);
            }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            to[i][v] = v_sums_whole(sums[i][v]);
}
