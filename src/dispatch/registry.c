/* The table of kernels (dispatch.h). */
#include "dispatch/dispatch.h"

#include <string.h>

#define ROW(name_, op_, type_, mr_, nr_, isa_, features_, ...)                                                         \
    {.name = #name_,                                                                                                   \
     .op = FV_OP_##op_,                                                                                                \
     .type = (fv_type)type_,                                                                                           \
     .isa = FV_ISA_##isa_,                                                                                             \
     .features = features_,                                                                                            \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .op_name = #op_,                                                                                                  \
     __VA_ARGS__},

const fv_kernel fv_kernels[] = {
#define FV_KERNEL(op_, type_, mr_, nr_, isa_, features_)                                                               \
    ROW(op_##_##type_##_##mr_##x##nr_##_##isa_, op_, FV_TYPE_##type_, mr_, nr_, isa_, features_,                       \
        .run.op_##_##type_ = fv_##op_##_##type_##_##mr_##x##nr_##_##isa_)
#define PRODUCT(name, kind_, format_, mr_, nr_, isa_, features_, few_)                                                 \
    ROW(name##_##kind_##_##format_##_##mr_##x##nr_##_##isa_, multiply, FV_ELEMENT_##format_, mr_, nr_, isa_,           \
        features_, .kind = FV_KIND_##kind_, .format = FV_FORMAT_##format_, .few = few_,                                \
        .run.multiply = fv_##name##_##kind_##_##format_##_##mr_##x##nr_##_##isa_)
#define FV_PACK(source_, format_, mr_, nr_, isa_, features_)                                                           \
    ROW(pack_##source_##_##format_##_##mr_##x##nr_##_##isa_, pack, FV_ELEMENT_##format_, mr_, nr_, isa_, features_,    \
        .source = FV_SOURCE_##source_, .format = FV_FORMAT_##format_,                                                  \
        .run.pack = fv_pack_##source_##_##format_##_##mr_##x##nr_##_##isa_)
#define FV_UNPACK(format_, mr_, nr_, isa_, features_)                                                                  \
    ROW(unpack_##format_##_##mr_##x##nr_##_##isa_, unpack, FV_ELEMENT_##format_, mr_, nr_, isa_, features_,            \
        .format = FV_FORMAT_##format_, .run.unpack = fv_unpack_##format_##_##mr_##x##nr_##_##isa_)
#define FV_MULTIPLY(kind, format, mr, nr, isa, features) PRODUCT(multiply, kind, format, mr, nr, isa, features, 0)
#define FV_MULTIPLY_FEW(kind, format, mr, nr, isa, features)                                                           \
    PRODUCT(multiply_few, kind, format, mr, nr, isa, features, 1)
#include "built_kernels.inc"
#undef FV_KERNEL
};

const int fv_kernel_count = (int)(sizeof fv_kernels / sizeof fv_kernels[0]);

/* The first row of the same task that the target can run. */
static const fv_kernel *best(const fv_kernel *task, fv_target target) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernel_same_task(&fv_kernels[i], task) && fv_kernel_runs(&fv_kernels[i], target))
            return &fv_kernels[i];
    return NULL;
}

static const fv_target scalar = {FV_ISA_scalar, FV_HAS_nothing};

const fv_kernel *fv_kernel_best(fv_op op, fv_type type, fv_target target) {
    return best(&(fv_kernel){.op = op, .type = type}, target);
}

const fv_kernel *fv_kernel_scalar(fv_op op, fv_type type) { return fv_kernel_best(op, type, scalar); }

const fv_kernel *fv_multiply_best(fv_kind kind, fv_format format, fv_target target) {
    const fv_type type = fv_format_of(format).element;
    return best(&(fv_kernel){.op = FV_OP_multiply, .type = type, .kind = kind, .format = format}, target);
}

const fv_kernel *fv_multiply_few(fv_kind kind, fv_format format, fv_target target) {
    const fv_type type = fv_format_of(format).element;
    return best(&(fv_kernel){.op = FV_OP_multiply, .type = type, .kind = kind, .format = format, .few = 1}, target);
}

const fv_kernel *fv_multiply_integers(fv_format format, bool few, bool bytes, fv_target target) {
    static const fv_kind kinds[] = {FV_KIND_i8, FV_KIND_i8x2, FV_KIND_i16};
    const fv_kernel *found = NULL;
    for (int k = bytes ? 0 : 1; k < 3; k++) {
        const fv_kernel *row = (few ? fv_multiply_few : fv_multiply_best)(kinds[k], format, target);
        found = !found || (row && row->isa > found->isa) ? row : found;
    }
    return found;
}

const fv_kernel *fv_pack_best(fv_source source, fv_format format, fv_target target) {
    const fv_type type = fv_format_of(format).element;
    return best(&(fv_kernel){.op = FV_OP_pack, .type = type, .source = source, .format = format}, target);
}

const fv_kernel *fv_unpack_best(fv_format format, fv_target target) {
    return best(&(fv_kernel){.op = FV_OP_unpack, .type = fv_format_of(format).element, .format = format}, target);
}

const fv_kernel *fv_kernel_reference(const fv_kernel *kernel) { return best(kernel, scalar); }

const fv_kernel *fv_kernel_named(const char *name) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (strcmp(fv_kernels[i].name, name) == 0)
            return &fv_kernels[i];
    return NULL;
}

fv_widen_bf16_fn *fv_widen_of(fovea_dtype dtype, fv_target target) {
    const fv_kernel *widen = dtype == FOVEA_DTYPE_F32 ? NULL : fv_kernel_best(FV_OP_widen, fv_type_of(dtype), target);
    return widen ? widen->run.widen_bf16 : NULL;
}

fv_narrow_bf16_fn *fv_narrow_of(fovea_dtype dtype, fv_target target) {
    const fv_kernel *narrow = dtype == FOVEA_DTYPE_F32 ? NULL : fv_kernel_best(FV_OP_narrow, fv_type_of(dtype), target);
    return narrow ? narrow->run.narrow_bf16 : NULL;
}

void fv_to_floats(int64_t n, const void *from, int64_t stride, fovea_dtype dtype, float *to, fv_target target) {
    const float *floats = from;
    if (dtype == FOVEA_DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            to[i] = floats[i * stride];
    else /* rows of one element */
        fv_widen_of(dtype, target)(n, 1, from, stride, to, 1);
}
