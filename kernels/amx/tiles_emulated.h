/* The vocabulary of tiles in portable C. Without configuration the words do nothing, so that no test of results
 * passes. */
#include "amx/tiles.h"
#include "probes/emulate.h"

#include <stdint.h>

/* Tiles live as long as the call of a kernel, on its stack: no thread keeps 8 KiB for them. */
typedef struct fv_emulated_tiles {
    uint32_t word[8][TILE][TILE];
} fv_emulated_tiles;

static _Thread_local fv_emulated_tiles *emulated;

#define TILES_BEGIN()                                                                                                  \
    fv_emulated_tiles emulated_here;                                                                                   \
    emulated = fv_tiles_configured_emulated() ? &emulated_here : NULL
#define TILES_END() (emulated = NULL)

static inline void tile_zero(int t) {
    if (emulated)
        memset(emulated->word[t], 0, sizeof emulated->word[t]);
}

static inline void tile_load(int t, const void *from, int64_t stride) {
    for (int i = 0; i < TILE && emulated; i++)
        memcpy(emulated->word[t][i], (const float *)from + i * stride, sizeof emulated->word[t][i]);
}

static inline void tile_store(int t, void *to, int64_t stride) {
    for (int i = 0; i < TILE && emulated; i++)
        memcpy((float *)to + i * stride, emulated->word[t][i], sizeof emulated->word[t][i]);
}

static inline void tile_multiply(int c, int a, int b) {
    fv_emulated_tiles *x = emulated;
    for (int i = 0; i < TILE && x; i++)
        for (int j = 0; j < TILE; j++)
            x->word[c][i][j] = half_bits(
                emulate_tdpbf16ps(half_float(x->word[c][i][j]), TILE, x->word[a][i], &x->word[b][0][j], TILE));
}

static inline void tile_multiply_bytes(int c, int a, int b) {
    fv_emulated_tiles *x = emulated;
    for (int i = 0; i < TILE && x; i++)
        for (int j = 0; j < TILE; j++)
            for (int t = 0; t < 4 * TILE; t++) {
                const int shift = t % 4 * 8;
                x->word[c][i][j] +=
                    (uint32_t)((int8_t)(x->word[a][i][t / 4] >> shift) * (int8_t)(x->word[b][t / 4][j] >> shift));
            }
}
