/* The kernels that every tier has one of: the best of each for a target. A context has them, so nobody looks them up
 * while rows wait, and none is NULL. Products, which are chosen, are not among them. */
#ifndef FV_OPS_H
#define FV_OPS_H

#include "cpu/cpu.h"
#include "fovea/types.h"
#include "kernels.h"

typedef struct fv_ops {
    fv_scale_f32_fn *scale;
    fv_copy_f32_fn *copy;
    fv_softmax_f32_fn *softmax;
    fv_merge_f32_fn *merge;
    fv_accumulate_f32_fn *accumulate;
    fv_finish_f32_fn *finish;
    fv_mask_to_bits_u8_fn *mask_to_bits;
    fv_add_mask_f32_fn *add_mask;
    fv_softcap_f32_fn *softcap;
    fv_weights_f32_fn *weights;
    fv_weight_sums_f32_fn *weight_sums;
    fv_finite_f32_fn *finite;
    fv_pack_fn *pack_columns; /* floats into a panel */
    fv_scales_f32_fn *scales;
    /* NULL for types that this build was made without: no plan has such operands then. */
    fv_softmax_bf16_fn *softmax_bf16;
    fv_widen_bf16_fn *widen_bf16, *widen_f16;
    fv_narrow_bf16_fn *narrow_bf16, *narrow_f16;
    fv_pack_fn *pack_columns_bf16x2, *pack_columns_f16x2x4, *pack_rows_bf16x2, *pack_steps_bf16x2;
    fv_unpack_fn *unpack_bf16x2;
    fv_quantize_i8_fn *quantize;
    fv_expand_i4_fn *expand_i4;
} fv_ops;

void fv_ops_select(fv_target target, fv_ops *ops);

/* Kernels that widen a type to floats, and narrow floats to it; NULL for floats and integers. */
static inline fv_widen_bf16_fn *fv_ops_widen(const fv_ops *ops, fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_BF16 ? ops->widen_bf16 : dtype == FOVEA_DTYPE_F16 ? ops->widen_f16 : NULL;
}

static inline fv_narrow_bf16_fn *fv_ops_narrow(const fv_ops *ops, fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_BF16 ? ops->narrow_bf16 : dtype == FOVEA_DTYPE_F16 ? ops->narrow_f16 : NULL;
}

#endif
