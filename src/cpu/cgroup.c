/* The cgroups of this process, the CPUs that their quotas pay for, and the memory that they leave. Where Linux's files
 * are missing there are none. */
#include "cpu/cpu.h"

#include "core/core.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of /proc/self/cgroup, with room around its folder for the path in front of it and the names of the folder's
 * files: one buffer, as stacks may be small. */
enum { BEFORE_LINE = 300, LINE = 4160, AFTER_LINE = 32 };

struct fv_cgroup {
    char text[BEFORE_LINE + LINE + AFTER_LINE];
    char *path, *end; /* of the group's folder, in text */
    int version;
};

int fv_cgroup_version(const fv_cgroup *group) { return group->version; }

const char *fv_cgroup_file(fv_cgroup *group, const char *name) {
    snprintf(group->end, AFTER_LINE, "/%s", name);
    return group->path;
}

/* Lines are "0::/folder" with version 2, which has all controllers, "4:cpu,cpuacct:/folder" with version 1. In a
 * container the folder may be the host's, and not there; then the root of what is mounted is the container's own. */
void fv_cgroups_each(const char *root, const char *controller, void (*visit)(fv_cgroup *group, void *arg), void *arg) {
    fv_cgroup group;
    char *line = group.text + BEFORE_LINE, before[BEFORE_LINE];
    snprintf(group.text, sizeof group.text, "%.200s/proc/self/cgroup", root);
    FILE *file = fopen(group.text, "re");
    while (file && fgets(line, LINE, file)) {
        group.end = line + strcspn(line, "\n");
        *group.end = '\0';
        char *controllers = strchr(line, ':');
        char *folder = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!folder)
            continue;
        *controllers++ = *folder++ = '\0';
        group.version = *controllers ? 1 : 2;
        if (group.version == 1 && !fv_text_lists(controllers, controller))
            continue;
        const int length = snprintf(before, sizeof before, "%.200s/sys/fs/cgroup%s%.40s", root,
                                    group.version == 1 ? "/" : "", group.version == 1 ? controller : "");
        group.path = memcpy(folder - length, before, (size_t)length);
        if (group.end > folder && group.end[-1] == '/') /* the root's is "/" */
            group.end--;
        for (bool more = true; more;) {
            *group.end = '\0';
            visit(&group, arg);
            *group.end = '\0';
            char *last = strrchr(folder, '/');
            more = last != NULL;
            group.end = more ? last : folder;
        }
    }
    if (file)
        fclose(file);
}

/* The first number of a file's first line, and the second where there are two; "max" is 0, as is a file that is not
 * there. */
static void read_numbers(const char *path, long long *first, long long *second) {
    char line[64], *end = line;
    FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file)) {
        *first = strtoll(line, &end, 10);
        *second = strtoll(end, NULL, 10);
    }
    if (file)
        fclose(file);
}

static void take_quota(fv_cgroup *group, void *arg) {
    int *smallest = arg;
    long long quota = 0, period = 0, none;
    if (group->version == 2) {
        read_numbers(fv_cgroup_file(group, "cpu.max"), &quota, &period);
    } else {
        read_numbers(fv_cgroup_file(group, "cpu.cfs_quota_us"), &quota, &none);
        read_numbers(fv_cgroup_file(group, "cpu.cfs_period_us"), &period, &none);
    }
    if (quota <= 0 || period <= 0)
        return;
    const long long cpus = quota / period;
    const int count = cpus < 1 ? 1 : cpus > INT_MAX ? INT_MAX : (int)cpus;
    *smallest = *smallest == 0 || count < *smallest ? count : *smallest;
}

int fv_cpu_quota(const char *root) {
    int smallest = 0;
    fv_cgroups_each(root, "cpu", take_quota, &smallest);
    return smallest;
}

/* Takes what a group has left into *arg, if that is less. */
static void take_memory(fv_cgroup *group, void *arg) {
    const bool old = group->version == 1;
    int64_t *least = arg;
    long long most = 0, used = 0, none;
    read_numbers(fv_cgroup_file(group, old ? "memory.limit_in_bytes" : "memory.max"), &most, &none);
    read_numbers(fv_cgroup_file(group, old ? "memory.usage_in_bytes" : "memory.current"), &used, &none);
    if (most > 0 && most - used < *least)
        *least = most > used ? most - used : 0;
}

int64_t fv_cpu_memory(const char *root) {
    static const char word[] = "MemAvailable:";
    char line[256];
    int64_t bytes = (int64_t)1 << 30;
    snprintf(line, sizeof line, "%.200s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, word, sizeof word - 1) == 0) {
            bytes = 1024 * strtoll(line + sizeof word - 1, NULL, 10);
            break;
        }
    if (file)
        fclose(file);
    fv_cgroups_each(root, "memory", take_memory, &bytes);
    return bytes;
}
