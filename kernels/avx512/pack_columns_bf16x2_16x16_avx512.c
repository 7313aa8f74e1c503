/* pack of columns as bf16x2 on avx512: blocks of 16 keys x 32 channels are transposed as words, whose halves then
 * change places. Bound: as pack's, for twice the channels: loads of 16 bytes and two shuffles a vector. */
#include "simd/exponents_avx512.h"

enum { KEYS = 16, CHANNELS = 32 };

/* For 16 keys so far. */
typedef struct packed {
    exponents all;
    vf squares;
    int norms; /* are squares asked for? They are as long a chain as all else of a block takes */
} packed;

static __attribute__((noinline)) void pack_block(const uint16_t *k, int64_t ldk, float *to, int64_t nr, packed *p) {
    vf block[KEYS];
    v_load_transposed_words(block, k, 2 * ldk);
    for (int r = 0; r < KEYS; r++) {
        const __m512i pair = _mm512_rol_epi32(_mm512_castps_si512(block[r]), 16);
        exponents_add(&p->all, pair);
        _mm512_storeu_si512(to + r * nr, pair);
    }
    for (int r = 0; r < KEYS && p->norms; r++)
        p->squares = _mm512_dpbf16_ps(p->squares, (__m512bh)_mm512_castps_si512(block[r]),
                                      (__m512bh)_mm512_castps_si512(block[r]));
}

/* A block of keys x channels, 0 <= keys <= KEYS, 0 < channels <= CHANNELS: copied, and padded with zeros, which count
 * for nothing. */
static __attribute__((noinline)) void pack_edge(int64_t keys, int64_t channels, const uint16_t *k, int64_t ldk,
                                                float *to, int64_t nr, packed *p) {
    uint16_t rows[KEYS][CHANNELS] = {{0}};
    float columns[CHANNELS / 2][KEYS];
    for (int64_t r = 0; r < keys; r++)
        memcpy(rows[r], k + r * ldk, (size_t)channels * sizeof *k);
    pack_block(rows[0], CHANNELS, columns[0], KEYS, p);
    for (int64_t r = 0; r < (channels + 1) / 2; r++)
        v_store(to + r * nr, v_load(columns[r]));
}

void fv_pack_columns_bf16x2_16x16_avx512(int64_t keys, int64_t channels, const void *source, int64_t ldk, int exponent,
                                         float *panel, int64_t nr, fv_exponent_range *met, float *norm) {
    const uint16_t *k = source;
    (void)exponent;
    assert(keys >= 0 && keys <= nr && nr % FV_LANES == 0 && channels >= 0 && ldk >= 0);
    packed p = {.all = exponents_none(), .norms = norm != NULL};
    vf highest = v_set1(norm ? *norm : 0.0f);
    for (int64_t i = 0; i < (keys + KEYS - 1) / KEYS * KEYS; i += KEYS) {
        const int64_t rows = keys - i < KEYS ? keys - i : KEYS;
        p.squares = v_set1(0.0f);
        for (int64_t c = 0; c < channels; c += CHANNELS) {
            const int64_t columns = channels - c < CHANNELS ? channels - c : CHANNELS;
            const uint16_t *from = k + i * ldk + c;
            float *to = panel + c / 2 * nr + i;
            if (rows == KEYS && columns == CHANNELS)
                pack_block(from, ldk, to, nr, &p);
            else
                pack_edge(rows, columns, from, ldk, to, nr, &p);
        }
        highest = v_max(p.squares, highest);
    }
    exponents_take(&p.all, met);
    if (norm)
        *norm = _mm512_reduce_max_ps(highest);
}
