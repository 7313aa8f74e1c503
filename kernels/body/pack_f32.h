/* pack: keys as rows of channels into a panel of channels as rows of keys (kernels.h has the contract), FV_W x FV_W
 * blocks transposed in registers.
 *
 * Bound: loads of 16 bytes that put 4 x 4 blocks in their places, two a cycle, and two shuffles a vector; a panel is
 * packed once and read by every row of a work item. Whole vectors loaded and four shuffles each took a third longer. */

#include "ahead.h"

enum { LINE = 16 }; /* floats of a cache line */

/* A block whose FV_W x FV_W elements are all there; fetch: it begins with a line. The block below comes after the rest
 * of these rows; the one below that is brought into the second-level cache, which waits for more lines at once than the
 * first (fovea-bench --case "attention q_heads=32 kv_heads=8 q_len=1 kv_len=4096 head_dim=128": without either 0.67 to
 * 0.86 times as fast on AMD family 25 model 17). */
static inline void pack_block(const float *k, int64_t ldk, float *to, int64_t nr, const int fetch) {
    vf block[FV_W];
    for (int r = 0; r < FV_W && fetch; r++) {
        __builtin_prefetch(fv_ahead(k, (FV_W + r) * ldk), 0, 3);
        __builtin_prefetch(fv_ahead(k, (2 * FV_W + r) * ldk), 0, 2);
    }
    v_load_transposed(block, k, ldk);
    for (int r = 0; r < FV_W; r++)
        v_store(to + r * nr, block[r]);
}

/* A block of which keys x channels are there, 0 <= keys <= FV_W, 0 < channels <= FV_W. */
static inline void pack_edge(int64_t keys, int64_t channels, const float *k, int64_t ldk, float *to, int64_t nr) {
    vf block[FV_W];
    for (int64_t r = 0; r < FV_W; r++)
        block[r] = r >= keys ? v_set1(0.0f) : channels < FV_W ? v_load_n(k + r * ldk, channels) : v_load(k + r * ldk);
    v_transpose(block);
    float columns[FV_W][FV_W];
    for (int r = 0; r < FV_W; r++)
        v_store(columns[r], block[r]);
    for (int64_t r = 0; r < channels; r++)
        v_store(to + r * nr, v_load(columns[r]));
}

void FV_NAME(int64_t keys, int64_t channels, const float *k, int64_t ldk, float *panel, int64_t nr) {
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0);
    assert(channels >= 0 && ldk >= 0);
    const int64_t padded = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    for (int64_t i = 0; i < padded; i += FV_W)
        for (int64_t c = 0; c < channels; c += FV_W) {
            const float *from = k + i * ldk + c;
            float *to = panel + c * nr + i;
            if (i + FV_W <= keys && c + FV_W <= channels)
                pack_block(from, ldk, to, nr, c % LINE == 0);
            else if (i < keys)
                pack_edge(keys - i < FV_W ? keys - i : FV_W, channels - c < FV_W ? channels - c : FV_W, from, ldk, to,
                          nr);
            else
                pack_edge(0, channels - c < FV_W ? channels - c : FV_W, k, ldk, to, nr);
        }
}
