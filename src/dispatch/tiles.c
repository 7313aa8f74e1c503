/* Configures the tiles of threads (tiles.h). All kernels have one configuration, so only the outermost pair does it. */
#include "dispatch/tiles.h"

#include "amx/tiles.h"

#include <assert.h>
#include <stddef.h>

typedef enum form { FORM_NONE, FORM_EMULATED, FORM_AMX } form;

static form form_of(const fv_kernel *kernel) {
    if (!kernel || kernel->kind != FV_KIND_bf16x2_amx_order)
        return FORM_NONE;
    return kernel->isa == FV_ISA_scalar ? FORM_EMULATED : FORM_AMX;
}

static _Thread_local int depth[FORM_AMX + 1];

void fv_tiles_enter(const fv_kernel *kernel) {
    const form f = form_of(kernel);
    if (f == FORM_NONE || depth[f]++ > 0)
        return;
    if (f == FORM_EMULATED)
        fv_tiles_configure_emulated();
#ifdef FV_HAVE_AVX512
    else
        fv_tiles_configure_amx();
#endif
}

void fv_tiles_leave(const fv_kernel *kernel) {
    const form f = form_of(kernel);
    assert(depth[f] > 0 || f == FORM_NONE);
    if (f == FORM_NONE || --depth[f] > 0)
        return;
    if (f == FORM_EMULATED)
        fv_tiles_release_emulated();
#ifdef FV_HAVE_AVX512
    else
        fv_tiles_release_amx();
#endif
}

void fv_tiles_softmax(const fv_kernel *kernel, const fv_product *products, int64_t count, fv_softmax_bf16_fn *softmax,
                      const fv_softmax_f32_args *args) {
    assert(form_of(kernel) != FORM_NONE && depth[form_of(kernel)] > 0);
#ifdef FV_WITHOUT_BF16 /* nor has it such a kernel */
    (void)kernel, (void)products, (void)count, (void)softmax, (void)args;
#else
    if (form_of(kernel) == FORM_EMULATED)
        fv_softmax_beside_emulated(products, count, softmax, args);
#ifdef FV_HAVE_AVX512
    else
        fv_softmax_beside_amx(products, count, softmax, args);
#endif
#endif
}
