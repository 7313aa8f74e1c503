/* pack of columns as bf16x2 on avx512: blocks of 16 keys x 32 channels are transposed as words, whose halves then
 * change places. Bound: as pack's, for twice the channels: loads of 16 bytes and two shuffles a vector. */
#include "simd/exponents_avx512.h"

enum { KEYS = 16, CHANNELS = 32 };

/* Of 16 keys so far. */
typedef struct packed {
    exponents all;
    vf squares;
    int norms; /* are squares asked for? They are as long a chain as all else of a block takes */
} packed;

static inline __attribute__((always_inline)) void store_words(vf block[KEYS], int64_t words, float *to, int64_t nr,
                                                              packed *p) {
    for (int64_t r = 0; r < words; r++) {
        const __m512i pair = _mm512_rol_epi32(_mm512_castps_si512(block[r]), 16);
        exponents_add(&p->all, pair);
        _mm512_storeu_si512(to + r * nr, pair);
    }
    if (p->norms)
        for (int64_t r = 0; r < words; r++)
            p->squares = _mm512_dpbf16_ps(p->squares, (__m512bh)_mm512_castps_si512(block[r]),
                                          (__m512bh)_mm512_castps_si512(block[r]));
}

static __attribute__((noinline)) void pack_block(const uint16_t *k, int64_t ldk, float *to, int64_t nr, packed *p) {
    vf block[KEYS];
    v_load_transposed_words(block, k, 2 * ldk);
    store_words(block, KEYS, to, nr, p);
}

/* Of which keys x channels are there, 0 <= keys <= KEYS, 0 < channels <= CHANNELS. */
static __attribute__((noinline)) void pack_edge(int64_t keys, int64_t channels, const uint16_t *k, int64_t ldk,
                                                float *to, int64_t nr, packed *p) {
    const __mmask32 there = (__mmask32)(((uint64_t)1 << channels) - 1);
    vf block[KEYS], columns[KEYS];
    for (int64_t r = 0; r < KEYS; r++)
        block[r] = r < keys ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(there, k + r * ldk)) : v_set1(0.0f);
    v_transpose(block);
    memcpy(columns, block, sizeof columns); /* so that a number of words that is no constant indexes memory */
    store_words(columns, (channels + 1) / 2, to, nr, p);
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
