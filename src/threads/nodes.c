/* Nodes of memory (threads.h): which of them work belongs to, and threads and pages on them.
 *
 * Pages are placed as the kernel does it: by the node of the thread that touches them first. A page that was touched
 * before, by whoever had the memory, is given back first. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_setaffinity, sched_getcpu, madvise */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "threads/threads.h"

#include <assert.h>

int fv_node_of(const fv_threads *t, int64_t index, int64_t count) {
    assert(0 <= index && index < count);
    const fv_nodes *n = t->nodes;
    const int64_t thread = index * t->count / count;
    int64_t cpu = thread * n->cpus / t->count;
    int node = 0;
    while (cpu >= n->node[node].cpus)
        cpu -= n->node[node++].cpus;
    return node;
}

#ifdef __linux__

int fv_node_here(const fv_nodes *n) {
    const int cpu = sched_getcpu();
    for (int i = 0; i < n->count && cpu >= 0 && cpu < FV_NODE_CPUS; i++)
        if (n->node[i].set[cpu / 64] >> cpu % 64 & 1)
            return i;
    return 0;
}

static bool set_affinity(const uint64_t set[FV_NODE_CPUS / 64]) {
    return sched_setaffinity(0, FV_NODE_CPUS / 8, (const cpu_set_t *)(const void *)set) == 0;
}

bool fv_node_bind(const fv_nodes *n, int node) { return set_affinity(n->node[node].set); }

/* Gives whole pages back to the system, and touches them. */
static bool touch(char *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at_memory = (uintptr_t)memory;
    const uintptr_t begin = (at_memory + page - 1) & -page, end = (at_memory + bytes) & -page;
    if (begin < end && madvise(memory + (begin - at_memory), end - begin, MADV_DONTNEED) != 0)
        return false;
    for (size_t at = 0; at < bytes; at += page)
        *(volatile char *)(memory + at) = 0;
    return true;
}

bool fv_node_place(const fv_nodes *n, int node, void *memory, int64_t part, int64_t first, int64_t end) {
    uint64_t own[FV_NODE_CPUS / 64];
    if (sched_getaffinity(0, sizeof own, (cpu_set_t *)(void *)own) != 0 || !fv_node_bind(n, node))
        return false;
    const bool placed = part == 0 || touch((char *)memory + first * part, (size_t)((end - first) * part));
    (void)set_affinity(own);
    return placed;
}

#else

int fv_node_here(const fv_nodes *n) { return (void)n, 0; }
bool fv_node_bind(const fv_nodes *n, int node) { return (void)n, (void)node, false; }
bool fv_node_place(const fv_nodes *n, int node, void *memory, int64_t part, int64_t first, int64_t end) {
    return (void)n, (void)node, (void)memory, (void)part, (void)first, (void)end, false;
}

#endif
