/* Look-ups in the list of kernels: each row is found for its own operation, element type and tier, and no row for
 * another type, as nothing else keeps a plan for float32 from calling it on arrays of floats. */
#include "dispatch/dispatch.h"
#include "test.h"

static bool has_rows(fv_op op, fv_type type) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].op == op && fv_kernels[i].type == type)
            return true;
    return false;
}

/* Are there any in the target's own tier, which come before those of the tiers below? */
static bool tier_has_rows(fv_op op, fv_type type, fv_target target) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].isa == target.isa && fv_kernel_is(&fv_kernels[i], op, type, target))
            return true;
    return false;
}

static void test_best(void) {
    for (int i = 0; i < fv_kernel_count; i++) {
        const fv_kernel *row = &fv_kernels[i];
        for (int type = 0; type < FV_TYPE_COUNT; type++) {
            const fv_target target = {row->isa, row->features};
            const fv_kernel *best = fv_kernel_best(row->op, (fv_type)type, target);
            if (has_rows(row->op, (fv_type)type))
                test_check(best && fv_kernel_is(best, row->op, (fv_type)type, target) &&
                               (best->isa == row->isa) == tier_has_rows(row->op, (fv_type)type, target),
                           "%s: the best of its operation, type %d and tier is %s", row->name, type,
                           best ? best->name : "none");
            else
                test_check(!best, "%s: there is none of type %d, yet %s", row->name, type, best ? best->name : "none");
        }
        test_check(fv_kernel_named(row->name) == row, "%s: not found by its name", row->name);
    }
}

static void test_gemm(void) {
    for (int i = 0; i < fv_kernel_count; i++) {
        const fv_target target = {fv_kernels[i].isa, fv_kernels[i].features};
        for (int type = 0; type < FV_TYPE_COUNT; type++)
            for (int64_t rows = 1; rows <= 64; rows *= 4) {
                const fv_kernel *found[] = {fv_gemm_for((fv_type)type, target, rows, 64),
                                            fv_gemm_for_stream((fv_type)type, target, rows, 64)};
                for (int j = 0; j < 2; j++)
                    test_check(has_rows(FV_OP_gemm, (fv_type)type)
                                   ? found[j] && fv_kernel_is(found[j], FV_OP_gemm, (fv_type)type, target)
                                   : !found[j],
                               "the gemm of type %d, tier %s is %s", type, fv_isa_word(target.isa),
                               found[j] ? found[j]->name : "none");
            }
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "kernel_registry", NULL);
    test_best();
    test_gemm();
    return test_end();
}
