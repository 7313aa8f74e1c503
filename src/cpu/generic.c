/* Processors without kernels of their own: the portable tier, and cache sizes from the C library where it knows them.
 */
#include "cpu/cpu.h"

#include <string.h>
#include <unistd.h>

void fv_cpu_detect(fv_cpu *cpu) {
    memset(cpu, 0, sizeof *cpu);
    cpu->target.isa = FV_ISA_scalar;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    cpu->l1d = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    cpu->l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    cpu->l3_reported = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    strcpy(cpu->vendor, "unknown");
    fv_cpu_detect_system(cpu);
    fv_cpu_sane_caches(cpu);
}
