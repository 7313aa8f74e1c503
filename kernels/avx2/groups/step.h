/* Shared by the files of formats: 16 steps with a few rows, half of those of i5g's words. One row takes all vectors'
 * first half of them and then the second, in the order of memory; of several, each takes the bytes of all 16 steps,
 * which registers hold. */
enum { FEW_STEPS = 16 };

GROUPS_INLINE void group_words(const uint32_t *b, int64_t row, const int half, const int eight, v_words w[2]);

GROUPS_INLINE void group_bytes(const uint32_t *b, int64_t row, const int half, const int eight, v_words table,
                               v_words w[2]) {
    group_words(b, row, half, eight, w);
#pragma GCC unroll 2
    for (int i = 0; i < 2 && TABLE; i++)
        w[i] = v_words_lookup(table, w[i]);
}

FEW_INLINE void few_step(v_dots dots[][MOST_VECTORS], const uint32_t *b, int64_t row, const int half, v_words table,
                         const char *x, int64_t lda, const int rows, const int nv) {
    enum { TO = TABLE ? 8 : BITS };
    v_words w[2][2];
    v_planes planes[MOST_VECTORS];
#pragma GCC unroll 2
    for (int eight = 0; eight < 2 && rows == 1; eight++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            group_bytes(b + v * FV_W, row, half, eight, table, w[0]);
            v_dots_add(&dots[0][v], &planes[v], w[0], (const uint32_t *)(const void *)x, eight, TO);
        }
#pragma GCC unroll 4
    for (int v = 0; v < nv && rows > 1; v++) {
        group_bytes(b + v * FV_W, row, half, 0, table, w[0]);
        group_bytes(b + v * FV_W, row, half, 1, table, w[1]);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int eight = 0; eight < 2; eight++)
                v_dots_add(&dots[i][v], planes, w[eight], (const uint32_t *)(const void *)(x + i * lda), eight, TO);
    }
}
