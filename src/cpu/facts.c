/* The facts about this machine that the system tells (cpu.h). */
#include "cpu/cpu.h"

int fv_cpu_affinity(void) {
    uint64_t set[FV_NODE_CPUS / 64];
    int count = 0;
    if (!fv_cpu_mask(set))
        return fv_cpu_online();
    for (int i = 0; i < FV_NODE_CPUS / 64; i++)
        for (uint64_t left = set[i]; left; left &= left - 1)
            count++;
    return count;
}

void fv_cpu_detect_system(fv_cpu *cpu) {
    cpu->cores = fv_cpu_online();
    cpu->affinity = fv_cpu_affinity();
    cpu->quota = fv_cpu_quota("");
    cpu->memory = fv_cpu_memory("");
    fv_nodes_read(FV_SYSTEM_NODES, &cpu->nodes);
}
