/* The CPUs of the machine, and those that this process may use: affinity mask, kinds of cores, their caches. Of the
 * library only this file, nodes.c and cgroup.c read /proc and /sys; other files are file.c's. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu/cpu.h"

#include "threads/threads.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fv_cpu_online(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < INT_MAX ? (int)count : 1;
}

#ifdef __linux__
#include <sched.h>

typedef struct mask {
    cpu_set_t *set;
    size_t size;
    bool of_places; /* and no longer of a thread */
} mask;

static void add_of_place(void *arg, int cpu) {
    mask *m = arg;
    if (!m->of_places)
        CPU_ZERO_S(m->size, m->set);
    m->of_places = true;
    if (cpu >= 0 && (size_t)cpu < m->size * CHAR_BIT)
        CPU_SET_S((size_t)cpu, m->size, m->set);
}

/* The affinity mask, of *size bytes, for CPU_FREE; NULL if there is no memory, or no answer. The kernel has but a mask
 * for each thread, and OpenMP may have bound this one to its place: then it is OpenMP that knows where all threads may
 * run. */
static cpu_set_t *affinity_mask(size_t *size) {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) { /* the kernel says EINVAL while the set is too small for it */
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        *size = CPU_ALLOC_SIZE((size_t)cpus);
        if (sched_getaffinity(0, *size, set) == 0) {
            fv_parallel_places(add_of_place, &(mask){set, *size, false});
            return set;
        }
        const int error = errno;
        CPU_FREE(set);
        if (error != EINVAL)
            break;
    }
    return NULL;
}

int fv_cpu_affinity(void) {
    size_t size;
    cpu_set_t *set = affinity_mask(&size);
    const int count = set ? CPU_COUNT_S(size, set) : 0;
    if (set)
        CPU_FREE(set);
    return count > 0 ? count : 1;
}

bool fv_cpu_mask(void *set, size_t bytes) {
    size_t size;
    cpu_set_t *own = affinity_mask(&size);
    memset(set, 0, bytes);
    if (!own)
        return false;
    memcpy(set, own, size < bytes ? size : bytes);
    CPU_FREE(own);
    return true;
}

/* The first line of a file into line[size], without its end; false if there is none. */
static bool read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool read = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

/* A file of a CPU's folder, as read_line() does. */
static bool read_cpu_line(const char *folder, int cpu, const char *name, char *line, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%.400s/cpu%d/%s", folder, cpu, name);
    return read_line(path, line, size);
}

void fv_cpu_fastest(const char *folder, fv_fastest *fastest) {
    size_t size;
    long most = -1;
    *fastest = (fv_fastest){0, 0};
    cpu_set_t *set = affinity_mask(&size);
    if (!set)
        return;
    for (int cpu = 0; cpu < (int)(size * CHAR_BIT); cpu++) {
        char line[64];
        if (!CPU_ISSET_S((size_t)cpu, size, set))
            continue;
        const long capacity =
            read_cpu_line(folder, cpu, "cpu_capacity", line, sizeof line) ? strtol(line, NULL, 10) : 0;
        if (capacity > most)
            *fastest = (fv_fastest){0, cpu}, most = capacity;
        fastest->count += capacity == most;
    }
    CPU_FREE(set);
}

/* How many bits are set in a mask as the system writes it: "0000000f,ffffffff". */
static int bits_of_mask(const char *text) {
    int bits = 0;
    for (; *text; text++) {
        const char digit[2] = {*text, '\0'};
        for (long value = strtol(digit, NULL, 16); value; value &= value - 1)
            bits++;
    }
    return bits;
}

int64_t fv_cpu_cache(const char *folder, int cpu, int level) {
    for (int index = 0; index < 16; index++) {
        char name[64], line[1024], *end;
        snprintf(name, sizeof name, "cache/index%d/level", index);
        if (!read_cpu_line(folder, cpu, name, line, sizeof line))
            return 0;
        if (strtol(line, NULL, 10) != level)
            continue;
        snprintf(name, sizeof name, "cache/index%d/type", index);
        if (!read_cpu_line(folder, cpu, name, line, sizeof line) || strcmp(line, "Instruction") == 0)
            continue;
        snprintf(name, sizeof name, "cache/index%d/size", index);
        if (!read_cpu_line(folder, cpu, name, line, sizeof line))
            return 0;
        int64_t bytes = strtol(line, &end, 10); /* "512K" */
        bytes *= *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : 1;
        snprintf(name, sizeof name, "cache/index%d/shared_cpu_map", index);
        const int sharing = read_cpu_line(folder, cpu, name, line, sizeof line) ? bits_of_mask(line) : 1;
        return bytes / (sharing > 0 ? sharing : 1);
    }
    return 0;
}

#else

int fv_cpu_affinity(void) { return fv_cpu_online(); }

bool fv_cpu_mask(void *set, size_t bytes) { return (void)set, (void)bytes, false; }

void fv_cpu_fastest(const char *folder, fv_fastest *fastest) {
    (void)folder;
    *fastest = (fv_fastest){0, 0};
}

int64_t fv_cpu_cache(const char *folder, int cpu, int level) {
    (void)folder, (void)cpu, (void)level;
    return 0;
}

#endif
