/* A library for LD_PRELOAD: programs see FOVEA_TEST_CPUS CPUs, whatever the host has (cmake/hosts.sh).
 *
 * It replaces the functions that are asked: sched_getaffinity() by the library, Python and nproc, and
 * pthread_getaffinity_np() by OpenMP; sysconf() and get_nprocs() for CPUs that are online; fopen() for the siblings of
 * a CPU, which OpenMP reads where it binds threads. A bound thread is told what it asked for, and runs on those of
 * these CPUs that exist. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static __thread cpu_set_t bound; /* what the thread asked for; empty: nothing yet */

static int count(void) {
    const char *word = getenv("FOVEA_TEST_CPUS");
    const int cpus = word ? atoi(word) : 1;
    return cpus < 1 ? 1 : cpus > CPU_SETSIZE ? CPU_SETSIZE : cpus;
}

static void all(cpu_set_t *set) {
    CPU_ZERO(set);
    for (int cpu = 0; cpu < count(); cpu++)
        CPU_SET(cpu, set);
}

/* Copies a set into one of another size; 0 or an error number. */
static int put(void *to, size_t size, const cpu_set_t *from) {
    if (size * 8 < (size_t)count())
        return EINVAL;
    memset(to, 0, size);
    memcpy(to, from, size < sizeof *from ? size : sizeof *from);
    return 0;
}

/* The pretended ones among the CPUs that were asked for, and in *real those that the calling thread may run on. */
static int take(const void *from, size_t size, cpu_set_t *asked, cpu_set_t *real) {
    cpu_set_t pretended;
    all(&pretended);
    CPU_ZERO(asked);
    memcpy(asked, from, size < sizeof *asked ? size : sizeof *asked);
    CPU_AND(asked, asked, &pretended);
    CPU_ZERO(real);
    if (syscall(SYS_sched_getaffinity, getpid(), sizeof *real, real) < 0)
        CPU_ZERO(real);
    CPU_AND(real, real, asked);
    return CPU_COUNT(asked) > 0 ? 0 : EINVAL;
}

static int get(bool own, size_t size, void *set) {
    cpu_set_t pretended = bound;
    if (!own || CPU_COUNT(&pretended) == 0)
        all(&pretended);
    return put(set, size, &pretended);
}

static int bind(const void *set, size_t size) {
    cpu_set_t asked, real;
    const int error = take(set, size, &asked, &real);
    if (error == 0) {
        bound = asked;
        if (CPU_COUNT(&real) > 0)
            syscall(SYS_sched_setaffinity, 0, sizeof real, &real);
    }
    return error;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    errno = get(pid == 0 || pid == gettid(), size, set);
    return errno ? -1 : 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    errno = pid == 0 || pid == gettid() ? bind(set, size) : EPERM;
    return errno ? -1 : 0;
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set) {
    return get(pthread_equal(thread, pthread_self()), size, set);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) {
    return pthread_equal(thread, pthread_self()) ? bind(set, size) : 0;
}

/* OpenMP's threads are bound as they are made. */
int pthread_attr_setaffinity_np(pthread_attr_t *attr, size_t size, const cpu_set_t *set) {
    int (*next)(pthread_attr_t *, size_t, const cpu_set_t *);
    cpu_set_t asked, real;
    const int error = take(set, size, &asked, &real);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_attr_setaffinity_np");
    return error || CPU_COUNT(&real) == 0 ? error : next(attr, sizeof real, &real);
}

int get_nprocs(void) { return count(); }
int get_nprocs_conf(void) { return count(); }

long sysconf(int name) {
    long (*next)(int);
    *(void **)&next = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? count() : next(name);
}

/* Each CPU is a core of its own. */
FILE *fopen(const char *restrict path, const char *restrict mode) {
    FILE *(*next)(const char *, const char *);
    static __thread char line[16];
    int cpu, end = 0;
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (sscanf(path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list%n", &cpu, &end) != 1 || end == 0)
        return next(path, mode);
    return fmemopen(line, (size_t)snprintf(line, sizeof line, "%d\n", cpu), "r");
}
