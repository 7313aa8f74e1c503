/* The best kernel of each operation (ops.h). */
#include "dispatch/ops.h"

#include "dispatch/dispatch.h"

static fv_pack_fn *pack(fv_source source, fv_format format, fv_target target) {
    const fv_kernel *kernel = fv_pack_best(source, format, target);
    return kernel ? kernel->run.pack : NULL;
}

void fv_ops_select(fv_target target, fv_ops *ops) {
    const fv_kernel *quantize = fv_kernel_best(FV_OP_quantize, FV_TYPE_i8, target);
    const fv_kernel *expand = fv_kernel_best(FV_OP_expand, FV_TYPE_i4, target);
    const fv_kernel *unpack = fv_unpack_best(FV_FORMAT_bf16x2, target),
                    *softmax = fv_kernel_best(FV_OP_softmax, FV_TYPE_bf16, target);
    *ops = (fv_ops){
        .scale = fv_kernel_best(FV_OP_scale, FV_TYPE_f32, target)->run.scale_f32,
        .copy = fv_kernel_best(FV_OP_copy, FV_TYPE_f32, target)->run.copy_f32,
        .softmax = fv_kernel_best(FV_OP_softmax, FV_TYPE_f32, target)->run.softmax_f32,
        .softmax_bf16 = softmax ? softmax->run.softmax_bf16 : NULL,
        .merge = fv_kernel_best(FV_OP_merge, FV_TYPE_f32, target)->run.merge_f32,
        .accumulate = fv_kernel_best(FV_OP_accumulate, FV_TYPE_f32, target)->run.accumulate_f32,
        .finish = fv_kernel_best(FV_OP_finish, FV_TYPE_f32, target)->run.finish_f32,
        .mask_to_bits = fv_kernel_best(FV_OP_mask_to_bits, FV_TYPE_u8, target)->run.mask_to_bits_u8,
        .add_mask = fv_kernel_best(FV_OP_add_mask, FV_TYPE_f32, target)->run.add_mask_f32,
        .softcap = fv_kernel_best(FV_OP_softcap, FV_TYPE_f32, target)->run.softcap_f32,
        .weights = fv_kernel_best(FV_OP_weights, FV_TYPE_f32, target)->run.weights_f32,
        .weight_sums = fv_kernel_best(FV_OP_weight_sums, FV_TYPE_f32, target)->run.weight_sums_f32,
        .finite = fv_kernel_best(FV_OP_finite, FV_TYPE_f32, target)->run.finite_f32,
        .pack_columns = pack(FV_SOURCE_columns, FV_FORMAT_f32, target),
        .scales = fv_kernel_best(FV_OP_scales, FV_TYPE_f32, target)->run.scales_f32,
        .widen_bf16 = fv_widen_of(FOVEA_DTYPE_BF16, target),
        .widen_f16 = fv_widen_of(FOVEA_DTYPE_F16, target),
        .narrow_bf16 = fv_narrow_of(FOVEA_DTYPE_BF16, target),
        .narrow_f16 = fv_narrow_of(FOVEA_DTYPE_F16, target),
        .pack_columns_bf16x2 = pack(FV_SOURCE_columns, FV_FORMAT_bf16x2, target),
        .pack_columns_f16x2x4 = pack(FV_SOURCE_columns, FV_FORMAT_f16x2x4, target),
        .pack_rows_bf16x2 = pack(FV_SOURCE_rows, FV_FORMAT_bf16x2, target),
        .pack_steps_bf16x2 = pack(FV_SOURCE_steps, FV_FORMAT_bf16x2, target),
        .unpack_bf16x2 = unpack ? unpack->run.unpack : NULL,
        .quantize = quantize ? quantize->run.quantize_i8 : NULL,
        .expand_i4 = expand ? expand->run.expand_i4 : NULL,
    };
}
