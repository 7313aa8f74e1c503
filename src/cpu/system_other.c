/* Systems other than Linux and Windows about CPUs (cpu.h): their number, and how much memory there is. */
#include "cpu/cpu.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int fv_cpu_online(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < INT_MAX ? (int)count : 1;
}

const char *fv_cpu_tiles_refused(bool ask) { return (void)ask, "the system is not known to have tiles"; }
int64_t fv_cpu_memory(const char *root) { return (void)root, (int64_t)1 << 30; }

/* Not known here: kinds of cores, caches, quotas, nodes. */
void fv_cpu_fastest(const char *folder, fv_fastest *fastest) { (void)folder, *fastest = (fv_fastest){0, 0}; }
int64_t fv_cpu_cache(const char *folder, int cpu, int level) { return (void)folder, (void)cpu, (void)level, 0; }
int fv_cpu_quota(const char *root) { return (void)root, 0; }
void fv_nodes_read(const char *folder, fv_nodes *nodes) { (void)folder, memset(nodes, 0, sizeof *nodes); }

/* No cgroups: none is visited. */
void fv_cgroups_each(const char *root, const char *controller, void (*visit)(fv_cgroup *group, void *arg), void *arg) {
    (void)root, (void)controller, (void)visit, (void)arg;
}
const char *fv_cgroup_file(fv_cgroup *group, const char *name) { return (void)group, name; }
