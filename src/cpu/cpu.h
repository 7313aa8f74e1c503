/* Facts about the machine. x86.c, arm.c (generic.c elsewhere) ask the processor; of the system, system.c, cgroup.c and
 * nodes.c ask Linux, system_windows.c Windows, and system_other.c answers elsewhere. isa.h has the order of tiers and
 * features. */
#ifndef FV_CPU_H
#define FV_CPU_H

#include "cpu/isa.h"
#include "threads/threads.h"

#include <stdbool.h>

/* CPUs of the fastest kind, where cores differ, among those that this process may run on. */
typedef struct fv_fastest {
    int count; /* 0: not known */
    int first; /* the number of one of them */
} fv_fastest;

typedef struct fv_cpu {
    char name[64];      /* the CPU's own name, "" if unknown */
    fv_target target;   /* the best tier, and all features, of this build that CPU and operating system support */
    char missing[128];  /* why the tier above it is not there, "" if there is none above */
    char no_tiles[128]; /* why a CPU that multiplies tiles is not used for it, "" if it is, or if it is none */
    fv_fastest fastest;
    int64_t l1d, l2;                 /* bytes of a core's caches, of the fastest kind: checked, with fallbacks */
    int64_t l3;                      /* of the last level, as far as this machine's CPUs may count on it; 0: none */
    int64_t l3_reported;             /* as the CPU says, which in a virtual machine may be the whole host's */
    char vendor[16];                 /* "GenuineIntel"; "unknown" */
    int64_t family, model, stepping; /* 0 if unknown */
    /* Are pairs of 16 bits multiplied at least as fast as floats, where there is an instruction? By VDPBF16PS on AMD's,
     * but Intel's takes four times as long; by BFMLALB and FMLAL. */
    bool fast_pairs;
    bool emulates_tiles; /* of tests: are kernels over tiles run by their emulation where there are none? */
    int64_t cores;       /* CPUs that are online, allowed to this process or not */
    int affinity, quota; /* as fv_cpu_affinity() and fv_cpu_quota() say */
    int64_t memory;      /* bytes that this process may still have, as fv_cpu_memory() says */
    fv_nodes nodes;      /* of memory; count 0: not known */
} fv_cpu;

/* All facts about this machine, as of now. What selects, plans, describes or tunes takes them from here alone, so that
 * tests can describe other machines. 34 KiB: not for small stacks. */
void fv_cpu_detect(fv_cpu *cpu);

/* The part of it that the system tells, not the processor: cores, affinity, quota, memory, nodes. */
void fv_cpu_detect_system(fv_cpu *cpu);

/* How many CPUs are online; at least 1. */
int fv_cpu_online(void);

/* How many CPUs the calling thread may run on now by its affinity mask, or by OpenMP's places where threads are bound
 * to them; all that are online where that is not known. */
int fv_cpu_affinity(void);

/* The affinity mask likewise, a bit for each CPU; false: not known. */
bool fv_cpu_mask(uint64_t set[FV_NODE_CPUS / 64]);

/* Why the system gives no tiles to this process, as hypervisors, sandboxes and an alternate signal stack that is too
 * small can be; NULL: it does. A process of Linux or Windows has them once it asked (ask), after which its signals take
 * more stack. */
const char *fv_cpu_tiles_refused(bool ask);

/* Nodes of memory, and their CPUs that this process may use (nodes.c); none where they are not known. */
#define FV_SYSTEM_NODES "/sys/devices/system/node"
void fv_nodes_read(const char *folder, fv_nodes *nodes);

/* The next two read the system's description of its CPUs, a folder: this one on Linux, tests have others. */
#define FV_SYSTEM_CPUS "/sys/devices/system/cpu"

/* Kinds by cpu_capacity, which is there where cores differ; without it all are fast. */
void fv_cpu_fastest(const char *folder, fv_fastest *fastest);

/* Bytes of a CPU's data cache of that level, divided by the CPUs that share it; 0: not known. */
int64_t fv_cpu_cache(const char *folder, int cpu, int level);

/* How many CPUs the quotas of this process's cgroups pay for, rounded down but at least 1; 0: no quota. root: "" but in
 * tests. */
int fv_cpu_quota(const char *root);

/* Bytes of memory that are available, and that each cgroup of this process has left; 1 GiB where the system does not
 * say. root: likewise. */
int64_t fv_cpu_memory(const char *root);

/* Visits each cgroup of this process that has a controller, as cpu or memory, and all groups above it: each limits. */
typedef struct fv_cgroup fv_cgroup;
void fv_cgroups_each(const char *root, const char *controller, void (*visit)(fv_cgroup *group, void *arg), void *arg);

/* In a visit: 1 or 2; the path of a file of the group (a name of at most 30 bytes), valid until the next is asked
 * for. */
int fv_cgroup_version(const fv_cgroup *group);
const char *fv_cgroup_file(fv_cgroup *group, const char *name);

/* Cache sizes as hypervisors report them may be absent or absurd: value, if low <= value <= high, else fallback. */
static inline int64_t fv_sane(int64_t value, int64_t low, int64_t high, int64_t fallback) {
    return value >= low && value <= high ? value : fallback;
}

/* A cache's bytes at percent per cent of its size. */
static inline int64_t fv_cpu_scaled(int64_t bytes, int64_t percent) { return bytes * percent / 100; }

static inline void fv_cpu_sane_caches(fv_cpu *cpu) {
    cpu->l1d = fv_sane(cpu->l1d, 8 << 10, 512 << 10, 32 << 10);
    cpu->l2 = fv_sane(cpu->l2, 64 << 10, 64 << 20, 512 << 10);
    /* A guest of two CPUs is told of the 480 MiB of the whole socket, whose other CPUs fill them. No machine has more
     * than 32 MiB for each of its CPUs. */
    const int64_t most = cpu->cores * ((int64_t)32 << 20);
    cpu->l3 = cpu->l3_reported < cpu->l2 ? 0 : cpu->l3_reported < most ? cpu->l3_reported : most;
}

#endif
