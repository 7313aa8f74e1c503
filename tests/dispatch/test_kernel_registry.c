/* Look-ups in the list of kernels: each row is found for its own operation, element type and tier, and no row for
 * another type, as nothing else keeps a plan for float32 from calling it on arrays of floats. */
#include "dispatch/dispatch.h"
#include "test.h"

#include <string.h>

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
        if (row->op == FV_OP_multiply || row->op == FV_OP_unpack || row->op == FV_OP_pack)
            continue;
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

/* Each product is found for its own kind, format and number of rows. */
static void test_products(void) {
    for (int i = 0; i < fv_kernel_count; i++) {
        const fv_kernel *row = &fv_kernels[i], *best;
        if (row->op != FV_OP_multiply)
            continue;
        test_check((strncmp(row->name, "multiply_few_", strlen("multiply_few_")) == 0) == row->few,
                   "%s: its name and its row differ in whether it is one of few rows", row->name);
        best = (row->few ? fv_multiply_few : fv_multiply_best)(row->kind, row->format,
                                                               (fv_target){row->isa, row->features});
        test_check(best && fv_multiply_is(best, row->kind, row->format, row->few) && best->isa == row->isa,
                   "%s: the best of its kind and format is %s", row->name, best ? best->name : "none");
        test_check(fv_kernel_reference(row) && fv_kernel_reference(row)->isa == FV_ISA_scalar &&
                       fv_multiply_is(fv_kernel_reference(row), row->kind, row->format, row->few),
                   "%s: no row of the portable tier", row->name);
        test_check(fv_kernel_named(row->name) == row, "%s: not found by its name", row->name);
    }
    test_check(!fv_multiply_best(FV_KIND_f16x2, FV_FORMAT_f32,
                                 fv_kernels[0].isa ? (fv_target){fv_kernels[0].isa, ~0u} : (fv_target){0, 0}),
               "a product that nobody has is found");
}

static void test_floats(void) {
    for (int i = 0; i < fv_kernel_count; i++) {
        const fv_target target = {fv_kernels[i].isa, fv_kernels[i].features};
        for (int64_t rows = 1; rows <= 64; rows *= 4) {
            const fv_kernel *found[] = {fv_multiply_for(target, rows, 64), fv_multiply_for_stream(target, rows, 64)};
            for (int j = 0; j < 2; j++)
                test_check(found[j] && fv_multiply_tuned(found[j], target), "the product of floats of tier %s is %s",
                           fv_isa_word(target.isa), found[j] ? found[j]->name : "none");
        }
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "kernel_registry", NULL);
    test_best();
    test_products();
    test_floats();
    return test_end();
}
