/* Configures the tiles of threads (tiles.h). All kernels have one configuration, so only the outermost pair does it. */
#include "dispatch/tiles.h"

#include "amx/tiles.h"

#include <assert.h>
#include <stddef.h>

typedef enum unit { UNIT_NONE, UNIT_EMULATED, UNIT_AMX } unit;

static unit unit_of(const fv_kernel *kernel) {
#ifdef FV_HAVE_AVX512
    if (kernel && (kernel->features & (FV_HAS_amx_bf16 | FV_HAS_amx_int8)))
        return UNIT_AMX;
#endif
    return kernel && kernel->kind == FV_KIND_bf16x2_amx_order ? UNIT_EMULATED : UNIT_NONE;
}

static _Thread_local int depth[UNIT_AMX + 1];

void fv_tiles_enter(const fv_kernel *kernel) {
    const unit u = unit_of(kernel);
    if (u == UNIT_NONE || depth[u]++ > 0)
        return;
    if (u == UNIT_EMULATED)
        fv_tiles_configure_emulated();
#ifdef FV_HAVE_AVX512
    else
        fv_tiles_configure_amx();
#endif
}

void fv_tiles_leave(const fv_kernel *kernel) {
    const unit u = unit_of(kernel);
    assert(depth[u] > 0 || u == UNIT_NONE);
    if (u == UNIT_NONE || --depth[u] > 0)
        return;
    if (u == UNIT_EMULATED)
        fv_tiles_release_emulated();
#ifdef FV_HAVE_AVX512
    else
        fv_tiles_release_amx();
#endif
}

void fv_tiles_softmax(const fv_kernel *kernel, const fv_product *products, int64_t count, fv_softmax_bf16_fn *softmax,
                      const fv_softmax_f32_args *args) {
    assert(unit_of(kernel) != UNIT_NONE && depth[unit_of(kernel)] > 0);
#ifdef FV_WITHOUT_BF16 /* nor has it such a kernel */
    (void)kernel, (void)products, (void)count, (void)softmax, (void)args;
#else
    if (unit_of(kernel) == UNIT_EMULATED)
        fv_softmax_overlapped_emulated(products, count, softmax, args);
#ifdef FV_HAVE_AVX512
    else
        fv_softmax_overlapped_amx(products, count, softmax, args);
#endif
#endif
}
