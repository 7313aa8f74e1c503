/* The part of the kernel list that this run may call (target.h). */
#include "target.h"

#include "cpu/cpu.h"
#include "test.h"

#include <pthread.h>

/* Found once: instructions are checked, and a hypervisor takes its time for each CPUID. */
static fv_target target;
static pthread_once_t found = PTHREAD_ONCE_INIT;

static void find(void) {
    fv_cpu this_cpu;
    fv_cpu_detect(&this_cpu);
    target = this_cpu.target;
}

static fv_target cpu(void) {
    pthread_once(&found, find);
    return target;
}

fv_target test_target(void) { return fv_target_capped(cpu(), (fv_isa)test_isa()); }

bool test_runs(const fv_kernel *row) {
    char lacks[FV_FEATURES_TEXT];
    const bool runs = fv_target_has(cpu(), row->isa, row->features);
    if (!runs)
        test_skip("%s: no %s here", row->name, fv_target_lacks(cpu(), row->isa, row->features, lacks));
    return runs;
}
