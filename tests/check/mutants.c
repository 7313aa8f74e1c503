/* The check against mutants (mutants.h): each must be found out, and the unbroken ones must not. */
#include "mutants.h"

#include "fp_control.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

static const mutant_table *const tables[] = {
    &mutants_many,      &mutants_half,           &mutants_array,   &mutants_softmax,
    &mutants_merge,     &mutants_mask,           &mutants_softcap, &mutants_bias_act_residual,
    &mutants_normalize, &mutants_weight_sums,    &mutants_few,     &mutants_int8,
    &mutants_groups,    &mutants_multiply_groups};

static void check_mutant(const mutant *m, uint64_t seed) {
    const char *name = m->kernel.name;
    const bool flush = m->fate == PASSES_FLUSHED || m->fate == DIFFERS_FLUSHED;
    checker c = {.kernel = &m->kernel, .seed = seed, .flush = flush, .quiet = true};
    c.reference = m->fate == DIFFERS_AS_REFERENCE ? &m->kernel : fv_kernel_reference(&m->kernel);
    if ((flush && FP_FLUSH == 0) || (m->visible && !m->visible())) {
        test_skip("%s: cannot be seen on this CPU", name);
        return;
    }
    check_kernel(&c);
    if (m->fate == PASSES || m->fate == PASSES_FLUSHED)
        test_check(c.failed == 0, "%s is not broken, yet: %s", name, c.first_failure);
    else if (test_check(c.failed > 0, "%s was not caught by %" PRId64 " calls", name, c.compared))
        printf("caught  %-30s by call %5" PRId64 ": %s\n", name, c.compared, c.first_failure);
}

/* Rows that the same check sees, in the same way. */
static bool checked_alike(const fv_kernel *a, const fv_kernel *b) {
    return check_of(a) == check_of(b) && a->kind == b->kind && a->few == b->few;
}

static bool some_broken(const fv_kernel *kernel) {
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (size_t j = 0; j < tables[i]->count; j++) {
            const mutant *m = &tables[i]->mutants[j];
            if (m->fate != PASSES && m->fate != PASSES_FLUSHED && checked_alike(&m->kernel, kernel))
                return true;
        }
    return false;
}

void check_mutants(uint64_t seed) {
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (size_t j = 0; j < tables[i]->count; j++)
            check_mutant(&tables[i]->mutants[j], seed);
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].isa == FV_ISA_scalar)
            test_check(some_broken(&fv_kernels[i]), "nothing shows that the check of %s can fail", fv_kernels[i].name);
}
