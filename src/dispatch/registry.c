/* The table of kernels (dispatch.h). */
#include "dispatch/dispatch.h"

#include <assert.h>
#include <string.h>

const fv_kernel fv_kernels[] = {
#define FV_KERNEL(op_, type_, mr_, nr_, isa_)                                                                          \
    {.name = #op_ "_" #type_ "_" #mr_ "x" #nr_ "_" #isa_,                                                              \
     .op = FV_OP_##op_,                                                                                                \
     .type = FV_TYPE_##type_,                                                                                          \
     .isa = FV_ISA_##isa_,                                                                                             \
     .mr = mr_,                                                                                                        \
     .nr = nr_,                                                                                                        \
     .run.op_##_##type_ = fv_##op_##_##type_##_##mr_##x##nr_##_##isa_,                                                 \
     .op_name = #op_},
#include "kernels.inc"
#undef FV_KERNEL
};

const int fv_kernel_count = (int)(sizeof fv_kernels / sizeof fv_kernels[0]);

const fv_kernel *fv_kernel_best(fv_op op, fv_type type, fv_isa cap) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].op == op && fv_kernels[i].type == type && fv_kernels[i].isa <= cap)
            return &fv_kernels[i];
    return NULL;
}

const fv_kernel *fv_kernel_named(const char *name) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (strcmp(fv_kernels[i].name, name) == 0)
            return &fv_kernels[i];
    return NULL;
}

typedef struct tier {
    const char *word;
    int lanes;
    fv_isa below;
} tier;

/* By number; what is between is not a tier, and has no word. */
static const tier tiers[FV_ISA_COUNT] = {
#define FV_TIER(word_, number_, lanes_, below_) [number_] = {#word_, lanes_, FV_ISA_##below_},
#include "tiers.inc"
#undef FV_TIER
};

fv_isa fv_isa_below(fv_isa isa) {
    assert((unsigned)isa < FV_ISA_COUNT);
    return tiers[isa].below;
}

/* A tier's number is greater than that of the one below it, so the greater of two cannot be below the other. */
fv_isa fv_isa_capped(fv_isa isa, fv_isa cap) {
    while (isa != cap)
        if (isa > cap)
            isa = fv_isa_below(isa);
        else
            cap = fv_isa_below(cap);
    return isa;
}

int fv_isa_lanes(fv_isa isa) {
    assert((unsigned)isa < FV_ISA_COUNT);
    return tiers[isa].lanes;
}

const char *fv_isa_word(fv_isa isa) {
    const unsigned index = (unsigned)isa;
    return index < FV_ISA_COUNT && tiers[index].word ? tiers[index].word : "unknown";
}
