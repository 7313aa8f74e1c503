/* Nodes of memory (NUMA) as the system describes them: /sys/devices/system/node on Linux. What is damaged there is as
 * good as absent: then all CPUs count as one node's. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>

/* A file such as "0-3,8": the numbers below bits, as a set of bits. The set is empty, and the result false, where the
 * file is absent or not of that form. */
static bool read_list(const char *folder, const char *name, int bits, uint64_t *set) {
    char path[512];
    int first, last, got = 0, c = '\n';
    memset(set, 0, (size_t)bits / 8);
    snprintf(path, sizeof path, "%.400s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (c != 0 && (got = fscanf(file, "%5d", &first)) == 1) { /* NOLINT: five digits */
        last = first;
        if ((c = getc(file)) == '-' && (fscanf(file, "%5d", &last) != 1 || (c = getc(file)) == '-')) /* NOLINT */
            last = -1;
        if (first < 0 || last < first || last >= bits || (c != ',' && c != '\n' && c != EOF))
            c = 0;
        for (; c != 0 && first <= last; first++)
            set[first / 64] |= UINT64_C(1) << first % 64;
    }
    fclose(file);
    if (got == EOF && c != ',')
        return true;
    memset(set, 0, (size_t)bits / 8);
    return false;
}

static bool has(const uint64_t *set, int i) { return set[i / 64] >> i % 64 & 1; }

void fv_nodes_read(const char *folder, fv_nodes *made) {
    enum { NUMBERS = 1024 };
    uint64_t online[NUMBERS / 64], memory[NUMBERS / 64], left[FV_NODE_CPUS / 64], lost = 0;
    memset(made, 0, sizeof *made);
    if (!fv_cpu_mask(left) || !read_list(folder, "online", NUMBERS, online))
        return;
    const bool told = read_list(folder, "has_memory", NUMBERS, memory);
    for (int n = 0; n < NUMBERS && made->count < FV_NODES; n++) {
        char name[32];
        fv_node *node = &made->node[made->count];
        if (!has(online, n))
            continue;
        made->count++;
        node->number = n;
        node->memory = !told || has(memory, n);
        snprintf(name, sizeof name, "node%d/cpulist", n);
        (void)read_list(folder, name, FV_NODE_CPUS, node->set);
        for (int i = 0; i < FV_NODE_CPUS / 64; i++) {
            node->set[i] &= left[i];
            left[i] ^= node->set[i];
            for (uint64_t set = node->set[i]; set; set &= set - 1)
                node->cpus++;
        }
        made->cpus += node->cpus;
        made->with_cpus += node->cpus > 0;
    }
    for (int i = 0; i < FV_NODE_CPUS / 64; i++)
        lost |= left[i]; /* CPUs that no node has: something is damaged */
    if (lost)
        memset(made, 0, sizeof *made);
}
