/* The tiles of threads that run kernels over them (kernels/amx/tiles.h). */
#ifndef FV_DISPATCH_TILES_H
#define FV_DISPATCH_TILES_H

#include "kernels.h"

/* Before the first and after the last call of the kernel by the calling thread; NULL, or one without tiles: nothing
 * happens. Pairs may be nested. */
void fv_tiles_enter(const fv_kernel *kernel);
void fv_tiles_leave(const fv_kernel *kernel);

/* softmax(args), overlapped with count products of a kernel over tiles, in order, between such a pair. Their memory
 * does not overlap softmax's. */
void fv_tiles_softmax(const fv_kernel *kernel, const fv_product *products, int64_t count, fv_softmax_bf16_fn *softmax,
                      const fv_softmax_f32_args *args);

#endif
