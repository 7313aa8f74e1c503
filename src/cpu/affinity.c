/* The CPUs that this process may use, as a set (cpu.h). */
#include "cpu/cpu.h"

#include "threads/threads.h"

/* The kernel has but a mask for each thread, and OpenMP may have bound this one to its place: then it is OpenMP that
 * knows where all threads may run. */
bool fv_cpu_mask(uint64_t set[FV_NODE_CPUS / 64]) { return fv_parallel_places(set) || fv_cpus_get(set); }
