/* Tiles: the vocabulary of kernels for AMX, in two forms. tiles_amx.h is the instructions; tiles_emulated.h is portable
 * C that computes the same (probes/emulate.h), so that the logic of kernels runs, in tests, on CPUs that have no tiles.
 *
 *   TILES_BEGIN(), TILES_END()      around a kernel's use of them
 *   a tile            TILE rows of TILE words: floats, pairs of bfloat16, sums, or fours of bytes. Eight, by number, a
 *                     constant
 *   tile_zero(t)                    tile_load(t, from, stride), tile_store(t, to, stride): rows are stride words apart
 *   tile_multiply(c, a, b)          c[i][j] += even + odd over the TILE pairs of a[i] and b[.][j], as kernels.h says
 *   tile_multiply_bytes(c, a, b)    c[i][j] += the products of signed bytes of a[i] and b[.][j], by 32 bits that wrap
 *
 * A thread that runs such kernels has its tiles configured before, all to the full size, and releases them afterwards,
 * or each context switch would save 8 KiB: fv_tiles_enter() and fv_tiles_leave() of src/dispatch/tiles.h, the hooks of
 * a thread's tasks. So a kernel configures nothing; what does not fill a tile goes through a copy padded with zeros. */
#ifndef FV_TILES_WORDS_H
#define FV_TILES_WORDS_H

#include "kernels.h"

enum { TILE = 16 };

/* Numbers of tiles: instructions have them in their text. */
#define C0 0
#define C1 1
#define C2 2
#define C3 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7

void fv_tiles_configure_amx(void);
void fv_tiles_release_amx(void);
void fv_tiles_configure_emulated(void);
void fv_tiles_release_emulated(void);
int fv_tiles_configured_emulated(void);

/* softmax(args), overlapped with count products of the amx order, in order, whose memory softmax does not touch
 * (multiply_amx_order.h). */
typedef void fv_softmax_overlapped_fn(const fv_product *products, int64_t count, fv_softmax_bf16_fn *softmax,
                                      const fv_softmax_f32_args *args);
fv_softmax_overlapped_fn fv_softmax_overlapped_amx, fv_softmax_overlapped_emulated;

/* multiply of rows of i8x2 (planes 2: high and low) or of i8 (1) and B of i8g (multiply_groups.h). */
void fv_multiply_groups_amx(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch, int planes);

#endif
