/* The check against mutants (mutants.h): each must be found out, and the unbroken ones must not. */
#include "mutants.h"

#include "fp_control.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

int flaw;

static void check_mutant(const mutant *m, uint64_t seed) {
    const char *name = m->kernel.name;
    const bool flush = m->fate == PASSES_FLUSHED || m->fate == DIFFERS_FLUSHED;
    checker c = {.kernel = &m->kernel, .seed = seed, .flush = flush, .quiet = true};
    c.reference = m->fate == DIFFERS_AS_REFERENCE ? &m->kernel : fv_kernel_reference(&m->kernel);
    if (flush && FP_FLUSH == 0) {
        test_skip("%s, %s: cannot be seen on this CPU", name, m->words);
        return;
    }
    flaw = m->flaw;
    check_kernel(&c);
    if (m->fate == PASSES || m->fate == PASSES_FLUSHED)
        test_check(c.failed == 0, "%s is not broken, yet: %s", name, c.first_failure);
    else if (test_check(c.failed > 0, "%s, %s was not caught by %" PRId64 " calls", name, m->words, c.compared))
        printf("caught  %-20s %-22s by call %5" PRId64 ": %s\n", name, m->words, c.compared, c.first_failure);
}

void check_mutants(uint64_t seed) {
    static const mutant_table *const tables[] = {&mutants_elements, &mutants_segments, &mutants_products,
                                                 &mutants_groups};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (size_t j = 0; j < tables[i]->count; j++)
            check_mutant(&tables[i]->mutants[j], seed);
}
