/* The table of kernels (dispatch.h). */
#include "dispatch/dispatch.h"

#include <string.h>

const fv_kernel fv_kernels[] = {
#define FV_KERNEL(op_, type_, mr_, nr_, isa_, features_)                                                               \
    {.name = #op_ "_" #type_ "_" #mr_ "x" #nr_ "_" #isa_,                                                              \
     .op = FV_OP_##op_,                                                                                                \
     .type = FV_TYPE_##type_,                                                                                          \
     .isa = FV_ISA_##isa_,                                                                                             \
     .features = features_,                                                                                            \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .run.op_##_##type_ = fv_##op_##_##type_##_##mr_##x##nr_##_##isa_,                                                 \
     .op_name = #op_},
#define PRODUCT(kind_, format_, mr_, nr_, isa_, features_, few_)                                                       \
    {.name = "multiply_" #kind_ "_" #format_ "_" #mr_ "x" #nr_ "_" #isa_,                                              \
     .op = FV_OP_multiply,                                                                                             \
     .type = (fv_type)FV_ELEMENT_##format_,                                                                            \
     .kind = FV_KIND_##kind_,                                                                                          \
     .format = FV_FORMAT_##format_,                                                                                    \
     .few = few_,                                                                                                      \
     .isa = FV_ISA_##isa_,                                                                                             \
     .features = features_,                                                                                            \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .run.multiply = fv_multiply_##kind_##_##format_##_##mr_##x##nr_##_##isa_,                                         \
     .op_name = "multiply"},
#define FV_PACKING(op_, format_, mr_, nr_, isa_, features_)                                                            \
    {.name = #op_ "_" #format_ "_" #mr_ "x" #nr_ "_" #isa_,                                                            \
     .op = FV_OP_##op_,                                                                                                \
     .type = (fv_type)FV_ELEMENT_##format_,                                                                            \
     .format = FV_FORMAT_##format_,                                                                                    \
     .isa = FV_ISA_##isa_,                                                                                             \
     .features = features_,                                                                                            \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .run.op_ = fv_##op_##_##format_##_##mr_##x##nr_##_##isa_,                                                         \
     .op_name = #op_},
#define FV_MULTIPLY(kind, format, mr, nr, isa, features) PRODUCT(kind, format, mr, nr, isa, features, 0)
#define FV_MULTIPLY_FEW(kind, format, mr, nr, isa, features) PRODUCT(kind, format, mr, nr, isa, features, 1)
#include "built_kernels.inc"
#undef FV_KERNEL
};

const int fv_kernel_count = (int)(sizeof fv_kernels / sizeof fv_kernels[0]);

const fv_kernel *fv_kernel_best(fv_op op, fv_type type, fv_target target) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernel_is(&fv_kernels[i], op, type, target))
            return &fv_kernels[i];
    return NULL;
}

const fv_kernel *fv_kernel_scalar(fv_op op, fv_type type) {
    return fv_kernel_best(op, type, (fv_target){FV_ISA_scalar, FV_HAS_nothing});
}

static const fv_kernel *best_product(fv_kind kind, fv_format format, bool few, fv_target target) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_multiply_is(&fv_kernels[i], kind, format, few) && fv_kernel_runs(&fv_kernels[i], target))
            return &fv_kernels[i];
    return NULL;
}

const fv_kernel *fv_multiply_best(fv_kind kind, fv_format format, fv_target target) {
    return best_product(kind, format, false, target);
}

const fv_kernel *fv_multiply_few(fv_kind kind, fv_format format, fv_target target) {
    return best_product(kind, format, true, target);
}

const fv_kernel *fv_packing_best(fv_op op, fv_format format, fv_target target) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].op == op && fv_kernels[i].format == format && fv_kernel_runs(&fv_kernels[i], target))
            return &fv_kernels[i];
    return NULL;
}

const fv_kernel *fv_kernel_reference(const fv_kernel *kernel) {
    const fv_target scalar = {FV_ISA_scalar, FV_HAS_nothing};
    switch (kernel->op) {
    case FV_OP_multiply: return best_product(kernel->kind, kernel->format, kernel->few, scalar);
    case FV_OP_pack:
    case FV_OP_unpack: return fv_packing_best(kernel->op, kernel->format, scalar);
    default: return fv_kernel_best(kernel->op, kernel->type, scalar);
    }
}

const fv_kernel *fv_kernel_named(const char *name) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (strcmp(fv_kernels[i].name, name) == 0)
            return &fv_kernels[i];
    return NULL;
}

fv_widen_bf16_fn *fv_widen_of(fovea_dtype dtype, fv_target target) {
    return dtype == FOVEA_DTYPE_F32 ? NULL : fv_kernel_best(FV_OP_widen, fv_type_of(dtype), target)->run.widen_bf16;
}

fv_narrow_bf16_fn *fv_narrow_of(fovea_dtype dtype, fv_target target) {
    return dtype == FOVEA_DTYPE_F32 ? NULL : fv_kernel_best(FV_OP_narrow, fv_type_of(dtype), target)->run.narrow_bf16;
}

void fv_to_floats(int64_t n, const void *from, int64_t stride, fovea_dtype dtype, float *to, fv_target target) {
    const float *floats = from;
    if (dtype == FOVEA_DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            to[i] = floats[i * stride];
    else /* rows of one element */
        fv_widen_of(dtype, target)(n, 1, from, stride, to, 1);
}
