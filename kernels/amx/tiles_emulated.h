/* The vocabulary of tiles in portable C. Without configuration a word fails, as the instructions do. */
#include "amx/tiles.h"
#include "probes/emulate.h"

#include <stdint.h>

typedef struct fv_emulated_tiles {
    int configured;
    uint32_t word[8][TILE][TILE];
} fv_emulated_tiles;

fv_emulated_tiles *fv_tiles_emulated(void);

static inline void tile_zero(int t) { memset(fv_tiles_emulated()->word[t], 0, sizeof(uint32_t[TILE][TILE])); }

static inline void tile_load(int t, const float *from, int64_t stride) {
    for (int i = 0; i < TILE; i++)
        memcpy(fv_tiles_emulated()->word[t][i], from + i * stride, sizeof(uint32_t[TILE]));
}

static inline void tile_store(int t, float *to, int64_t stride) {
    for (int i = 0; i < TILE; i++)
        memcpy(to + i * stride, fv_tiles_emulated()->word[t][i], sizeof(uint32_t[TILE]));
}

static inline void tile_multiply(int c, int a, int b) {
    fv_emulated_tiles *x = fv_tiles_emulated();
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++)
            x->word[c][i][j] = half_bits(
                emulate_tdpbf16ps(half_float(x->word[c][i][j]), TILE, x->word[a][i], &x->word[b][0][j], TILE));
}
