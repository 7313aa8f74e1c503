/* Linux about CPUs (cpu.h): their number, kinds of cores, their caches; permission for tiles. Of the library only this
 * file, nodes.c and cgroup.c read /proc and /sys, and threads/system_posix.c at a fork; other files are file.c's. */
#define _GNU_SOURCE /* syscall */
#include "cpu/cpu.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fv_cpu_online(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < INT_MAX ? (int)count : 1;
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
    uint64_t set[FV_NODE_CPUS / 64];
    long most = -1;
    *fastest = (fv_fastest){0, 0};
    if (!fv_cpu_mask(set))
        return;
    for (int cpu = 0; cpu < FV_NODE_CPUS; cpu++) {
        char line[64];
        if (!(set[cpu / 64] >> cpu % 64 & 1))
            continue;
        const long capacity =
            read_cpu_line(folder, cpu, "cpu_capacity", line, sizeof line) ? strtol(line, NULL, 10) : 0;
        if (capacity > most)
            *fastest = (fv_fastest){0, cpu}, most = capacity;
        fastest->count += capacity == most;
    }
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

const char *fv_cpu_tiles_refused(bool ask) {
#ifdef SYS_arch_prctl
    enum { TILE_DATA = 18, GET_SUPPORTED = 0x1021, GET_PERMITTED, REQUEST };
    uint64_t states = 0;
    if (syscall(SYS_arch_prctl, ask ? GET_PERMITTED : GET_SUPPORTED, &states) == 0 && ask &&
        !(states >> TILE_DATA & 1) && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0)
        (void)syscall(SYS_arch_prctl, GET_PERMITTED, &states);
    return states >> TILE_DATA & 1 ? NULL : "the system does not permit tiles (arch_prctl)";
#else
    return (void)ask, NULL;
#endif
}
