/* The table of kernels (registry.h). */
#include "registry.h"

#include <string.h>

const fv_kernel fv_kernels[] = {
#define FV_KERNEL(op_, type_, mr_, nr_, isa_)                                                                          \
    {.name = #op_ "_" #type_ "_" #mr_ "x" #nr_ "_" #isa_,                                                              \
     .op = FV_OP_##op_,                                                                                                \
     .type = FV_TYPE_##type_,                                                                                          \
     .isa = FV_ISA_##isa_,                                                                                             \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .run.op_##_##type_ = fv_##op_##_##type_##_##mr_##x##nr_##_##isa_},
#include "kernels.inc"
#undef FV_KERNEL
};

const int fv_kernel_count = (int)(sizeof fv_kernels / sizeof fv_kernels[0]);

const fv_kernel *fv_kernel_best(fv_op op, fv_isa cap) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].op == op && fv_kernels[i].isa <= cap)
            return &fv_kernels[i];
    return NULL;
}

const fv_kernel *fv_kernel_named(const char *name) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (strcmp(fv_kernels[i].name, name) == 0)
            return &fv_kernels[i];
    return NULL;
}

int fv_isa_lanes(fv_isa isa) { return isa == FV_ISA_avx512 ? 16 : isa == FV_ISA_avx2 ? 8 : 1; }

const char *fv_isa_word(fv_isa isa) {
    static const char *const words[] = {[FV_ISA_scalar] = "scalar", [FV_ISA_avx2] = "avx2", [FV_ISA_avx512] = "avx512"};
    const unsigned index = (unsigned)isa;
    return index > 0 && index < sizeof words / sizeof words[0] ? words[index] : "unknown";
}
