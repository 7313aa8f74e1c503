/* The CPUs of the machine, and those that this process may use: affinity mask and cgroup quota. The only file of the
 * library that reads /proc and /sys; other files are file.c's. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu.h"

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

int fv_cpu_affinity(void) {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) { /* the kernel says EINVAL while the set is too small for it */
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        const size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        const int failed = sched_getaffinity(0, size, set), error = errno;
        const int count = failed ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (!failed)
            return count > 0 ? count : 1;
        if (error != EINVAL)
            break;
    }
    return 1;
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

/* CPUs paid for by a quota of so many microseconds in each period; 0: none. */
static int cpus_of_quota(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = quota / period;
    return cpus < 1 ? 1 : cpus > INT_MAX ? INT_MAX : (int)cpus;
}

static int quota_v2(const char *folder) {
    char path[PATH_MAX + 32], line[64], *end;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line))
        return 0;
    const long long quota = strtoll(line, &end, 10); /* "max 100000" gives 0 */
    return cpus_of_quota(quota, strtoll(end, NULL, 10));
}

static int quota_v1(const char *folder) {
    char path[PATH_MAX + 48], quota[32], period[32];
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", folder);
    if (!read_line(path, quota, sizeof quota))
        return 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", folder);
    if (!read_line(path, period, sizeof period))
        return 0;
    return cpus_of_quota(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest quota of a group and all groups above it: each limits. */
static int smallest_quota(char *folder, int (*quota_of)(const char *folder)) {
    int smallest = 0;
    for (;;) {
        const int quota = quota_of(folder);
        if (quota > 0 && (smallest == 0 || quota < smallest))
            smallest = quota;
        char *last = strrchr(folder, '/');
        if (!last)
            return smallest;
        *last = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/folder" is version 2, "4:cpu,cpuacct:/folder" version 1. */
int fv_cpu_quota(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    char line[PATH_MAX + 64];
    int smallest = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *folder = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!folder)
            continue;
        *controllers++ = *folder++ = '\0';
        int quota = 0;
        if (*controllers == '\0')
            quota = smallest_quota(folder, quota_v2);
        else if (strncmp(controllers, "cpu", 3) == 0 && (controllers[3] == '\0' || controllers[3] == ','))
            quota = smallest_quota(folder, quota_v1);
        if (quota > 0 && (smallest == 0 || quota < smallest))
            smallest = quota;
    }
    fclose(file);
    return smallest;
}

#else

int fv_cpu_affinity(void) { return fv_cpu_online(); }

int fv_cpu_quota(void) { return 0; }

#endif
