/* Windows about CPUs (cpu.h): their number, memory, permission for tiles. */
#include "cpu/cpu.h"

#include <string.h>
#include <windows.h>

int fv_cpu_online(void) {
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count > 0 ? (int)count : 1;
}

const char *fv_cpu_tiles_refused(bool ask) {
    enum { TILE_DATA = 1 << 18 };
    typedef BOOL(WINAPI * enable)(DWORD64 features);
    const FARPROC found = GetProcAddress(GetModuleHandleA("kernel32.dll"), "EnableProcessOptionalXStateFeatures");
    enable enable_features;
    memcpy(&enable_features, &found, sizeof found);
    if (!found)
        return "this version of Windows does not support tile data";
    return ask && !enable_features(TILE_DATA) ? "the system refused permission for tile data" : NULL;
}

int64_t fv_cpu_memory(const char *root) {
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    (void)root;
    return GlobalMemoryStatusEx(&status) ? (int64_t)status.ullAvailPhys : (int64_t)1 << 30;
}

/* Not known here, or not yet asked for: kinds of cores, caches, quotas, nodes. */
void fv_cpu_fastest(const char *folder, fv_fastest *fastest) { (void)folder, *fastest = (fv_fastest){0, 0}; }
int64_t fv_cpu_cache(const char *folder, int cpu, int level) { return (void)folder, (void)cpu, (void)level, 0; }
int fv_cpu_quota(const char *root) { return (void)root, 0; }
void fv_nodes_read(const char *folder, fv_nodes *nodes) { (void)folder, memset(nodes, 0, sizeof *nodes); }
