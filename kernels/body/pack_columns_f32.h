/* pack: keys as rows of channels into a panel of channels as rows of keys, FV_W x FV_W blocks transposed in registers,
 * and their norms (kernels.h has the contract).
 *
 * Bound: loads of 16 bytes that put 4 x 4 blocks in their places, two a cycle, and two shuffles a vector. pack_block is
 * a function of its own: compiled into the loop, its many addresses would be spilled. Figures: docs/lab/products.md. */

#include "prefetch_ahead.h"
#include "norm.h"

enum {
    LINE = 16, /* floats of a cache line */
    SUMS = 4   /* lanes of a sum of squares */
};

/* A block at channel c whose FV_W x FV_W elements are all there; its squares are added to the lanes of its keys' sums,
 * unless NULL. fetch: the block below, which comes after the rest of these rows, and the one below that are prefetched:
 * that one into the second-level cache, which waits for more lines at once than the first. */
static __attribute__((noinline)) void pack_block(int64_t c, const float *k, int64_t ldk, float *to, int64_t nr,
                                                 vf *sums, int fetch) {
    vf block[FV_W];
    for (int r = 0; r < FV_W && fetch; r++) {
        __builtin_prefetch(fv_ahead(k, (FV_W + r) * ldk), 0, 3);
        __builtin_prefetch(fv_ahead(k, (2 * FV_W + r) * ldk), 0, 2);
    }
    v_load_transposed(block, k, ldk);
    for (int r = 0; r < FV_W; r++)
        v_store(to + r * nr, block[r]);
    for (int r = 0; r < FV_W && sums; r++) {
        vf *sum = &sums[FV_W < SUMS ? c % SUMS : r % SUMS];
        *sum = v_fma(block[r], block[r], *sum);
    }
}

/* One of which keys x channels are there, 0 <= keys <= FV_W, 0 < channels <= FV_W: copied, with zeros for the rest. */
static __attribute__((noinline)) void pack_edge(int64_t c, int64_t keys, int64_t channels, const float *k, int64_t ldk,
                                                float *to, int64_t nr, vf *sums) {
    float rows[FV_W][FV_W] = {{0}}, columns[FV_W][FV_W];
    for (int64_t r = 0; r < keys; r++)
        memcpy(rows[r], k + r * ldk, (size_t)channels * sizeof *k);
    pack_block(c, rows[0], FV_W, columns[0], FV_W, sums, 0);
    for (int64_t r = 0; r < channels; r++)
        v_store(to + r * nr, v_load(columns[r]));
}

void FV_NAME(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent, float *panel, int64_t nr,
             fv_exponent_range *range, float *norm) {
    const float *k = source;
    (void)exponent, (void)range;
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0);
    assert(channels >= 0 && ldk >= 0);
    const int64_t padded = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    vf highest = v_set1(norm ? *norm : 0.0f);
    for (int64_t i = 0; i < padded; i += FV_W) {
        vf sums[SUMS] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
        const int64_t rows = i >= keys ? 0 : keys - i < FV_W ? keys - i : FV_W;
        for (int64_t c = 0; c < channels; c += FV_W) {
            const int64_t columns = channels - c < FV_W ? channels - c : FV_W;
            const float *from = k + (rows ? i * ldk : 0) + c;
            float *to = panel + c * nr + i;
            if (rows == FV_W && columns == FV_W)
                pack_block(c, from, ldk, to, nr, norm ? sums : NULL, c % LINE == 0);
            else
                pack_edge(c, rows, columns, from, ldk, to, nr, norm ? sums : NULL);
        }
        if (norm)
            highest = v_max(v_add(v_add(sums[0], sums[2]), v_add(sums[1], sums[3])), highest);
    }
    if (norm)
        *norm = norm_highest(highest);
}
