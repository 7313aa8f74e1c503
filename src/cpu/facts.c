/* The facts about this machine that the system tells (cpu.h). */
#include "cpu/cpu.h"

void fv_cpu_detect_system(fv_cpu *cpu) {
    cpu->cores = fv_cpu_online();
    cpu->affinity = fv_cpu_affinity();
    cpu->quota = fv_cpu_quota("");
    cpu->memory = fv_cpu_memory("");
    fv_nodes_read(FV_SYSTEM_NODES, &cpu->nodes);
}
