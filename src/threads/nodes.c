/* Nodes of memory (threads.h): which of them work belongs to, and threads and pages on them.
 *
 * Pages are placed as the kernel does it: by the node of the thread that touches them first. A page that was touched
 * before, by whoever had the memory, is given back first. */
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

int fv_node_here(const fv_nodes *n) {
    const int cpu = fv_cpu_here();
    for (int i = 0; i < n->count && cpu >= 0 && cpu < FV_NODE_CPUS; i++)
        if (n->node[i].set[cpu / 64] >> cpu % 64 & 1)
            return i;
    return 0;
}

bool fv_node_bind(const fv_nodes *n, int node) { return fv_cpus_set(n->node[node].set); }

/* Gives whole pages back to the system, and touches them. */
static bool touch(char *memory, size_t bytes) {
    size_t page;
    if (!fv_pages_drop(memory, bytes, &page))
        return false;
    for (size_t at = 0; at < bytes; at += page)
        *(volatile char *)(memory + at) = 0;
    return true;
}

bool fv_node_place(const fv_nodes *n, int node, void *memory, int64_t part, int64_t first, int64_t end) {
    uint64_t own[FV_NODE_CPUS / 64];
    if (!fv_cpus_get(own) || !fv_node_bind(n, node))
        return false;
    const bool placed = part == 0 || touch((char *)memory + first * part, (size_t)((end - first) * part));
    (void)fv_cpus_set(own);
    return placed;
}
