/* The part of the kernel list that a run may call. Apart from test.h, which knows the public library alone. */
#ifndef FOVEA_TESTS_TARGET_H
#define FOVEA_TESTS_TARGET_H

#include "cpu/isa.h"

/* The default of contexts in this run. */
fv_target test_target(void);

/* Has this CPU what the row needs, whatever FOVEA_ISA says? If not, the row is counted as skipped. */
bool test_runs(const fv_kernel *row);

#endif
