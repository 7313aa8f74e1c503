/* What of the kernel list this run may call (target.h). */
#include "target.h"

#include "cpu/cpu.h"
#include "test.h"

static fv_target cpu(void) {
    fv_cpu found;
    fv_cpu_detect(&found);
    return found.target;
}

fv_target test_target(void) { return fv_target_capped(cpu(), (fv_isa)test_isa()); }

bool test_runs(const fv_kernel *row) {
    char lacks[FV_FEATURES_TEXT];
    const bool runs = fv_target_has(cpu(), row->isa, row->features);
    if (!runs)
        test_skip("%s: no %s here", row->name, fv_target_lacks(cpu(), row->isa, row->features, lacks));
    return runs;
}
