/* The list of kernels as C sees it: operations, tiers, features and types, a row, and the prototypes. Part of
 * kernels.h, which has the types of the functions; the rows themselves are in kernels.inc. */
#ifndef FV_KERNEL_LIST_H
#define FV_KERNEL_LIST_H

/* The operations of the list. */
typedef enum fv_op {
    FV_OP_multiply,
    FV_OP_scale,
    FV_OP_copy,
    FV_OP_pack,
    FV_OP_softmax,
    FV_OP_merge,
    FV_OP_accumulate,
    FV_OP_finish,
    FV_OP_mask_to_bits,
    FV_OP_add_mask,
    FV_OP_softcap,
    FV_OP_weights,
    FV_OP_weight_sums,
    FV_OP_finite,
    FV_OP_bias_act_residual,
    FV_OP_normalize,
    FV_OP_exp,
    FV_OP_unpack,
    FV_OP_widen,
    FV_OP_narrow,
    FV_OP_quantize,
    FV_OP_scales,
    FV_OP_expand,
    FV_OP_delta,
    FV_OP_sweep,
    FV_OP_scan,
    FV_OP_convolve,
    FV_OP_COUNT
} fv_op;

/* The tiers, numbered as in the public header. */
typedef enum fv_isa {
    FV_ISA_none,
#define FV_TIER(word, number, lanes, below) FV_ISA_##word = number,
#include "tiers.inc"
#undef FV_TIER
    FV_ISA_COUNT
} fv_isa;

/* Features that CPUs may have beyond a tier: numbers, and the same as bits of a set. */
enum {
#define FV_FEATURE(word, tier) FV_FEATURE_##word,
#include "features.inc"
#undef FV_FEATURE
    FV_FEATURE_COUNT
};
enum {
    FV_HAS_nothing = 0,
#define FV_FEATURE(word, tier) FV_HAS_##word = 1 << FV_FEATURE_##word,
#include "features.inc"
#undef FV_FEATURE
};

/* A row of the list. mr x nr: the register tile of a product; elsewhere what the row handles at once. */
typedef struct fv_kernel {
    const char *name;
    fv_op op;
    fv_type type;     /* of a product, pack or unpack: of the operand's elements */
    fv_format format; /* of that operand */
    fv_kind kind;     /* of a product */
    fv_source source; /* of a pack */
    int few;          /* it takes at most mr rows */
    fv_isa isa;
    unsigned features; /* that it needs beyond its tier: FV_HAS_... */
    int mr, nr;
    union {
        fv_multiply_fn *multiply;
        fv_scale_f32_fn *scale_f32;
        fv_copy_f32_fn *copy_f32;
        fv_pack_fn *pack;
        fv_softmax_f32_fn *softmax_f32;
        fv_softmax_bf16_fn *softmax_bf16;
        fv_merge_f32_fn *merge_f32;
        fv_accumulate_f32_fn *accumulate_f32;
        fv_finish_f32_fn *finish_f32;
        fv_mask_to_bits_u8_fn *mask_to_bits_u8;
        fv_add_mask_f32_fn *add_mask_f32;
        fv_softcap_f32_fn *softcap_f32;
        fv_weights_f32_fn *weights_f32;
        fv_weight_sums_f32_fn *weight_sums_f32;
        fv_finite_f32_fn *finite_f32;
        fv_bias_act_residual_f32_fn *bias_act_residual_f32;
        fv_normalize_f32_fn *normalize_f32;
        fv_exp_f32_fn *exp_f32;
        fv_unpack_fn *unpack;
        fv_widen_bf16_fn *widen_bf16;
        fv_widen_f16_fn *widen_f16;
        fv_narrow_bf16_fn *narrow_bf16;
        fv_narrow_f16_fn *narrow_f16;
        fv_quantize_i8_fn *quantize_i8;
        fv_scales_f32_fn *scales_f32;
        fv_expand_i4_fn *expand_i4;
        fv_expand_i5_fn *expand_i5;
        fv_expand_i6_fn *expand_i6;
        fv_delta_f32_fn *delta_f32;
        fv_sweep_f32_fn *sweep_f32;
        fv_scan_f32_fn *scan_f32;
        fv_convolve_f32_fn *convolve_f32;
    } run;
    const char *op_name; /* "multiply", "scale", ... */
} fv_kernel;

/* Prototypes of every kernel that this build has. */
#define FV_KERNEL(op, type, mr, nr, isa, features) fv_##op##_##type##_fn fv_##op##_##type##_##mr##x##nr##_##isa;
#define FV_MULTIPLY(kind, format, mr, nr, isa, features)                                                               \
    fv_multiply_fn fv_multiply_##kind##_##format##_##mr##x##nr##_##isa;
#define FV_PACK(source, format, mr, nr, isa, features) fv_pack_fn fv_pack_##source##_##format##_##mr##x##nr##_##isa;
#define FV_UNPACK(format, mr, nr, isa, features) fv_unpack_fn fv_unpack_##format##_##mr##x##nr##_##isa;
#include "built_kernels.inc"
#undef FV_KERNEL

#endif
