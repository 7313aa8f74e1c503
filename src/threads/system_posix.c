/* Threads, the clock and CPUs of POSIX (system.h); CPUs are Linux's, elsewhere not known. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity, madvise */
#include <sched.h>
#include <sys/mman.h>
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include "threads/threads.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int fv_threads_start(fv_thread *threads, int count, void *(*run)(void *arg), void *arg) {
    static const int passed[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF};
    sigset_t blocked, before;
    int started = 0;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        sigdelset(&blocked, passed[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    while (started < count && pthread_create(&threads[started], NULL, run, arg) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool fv_threads_other(void) {
    struct stat tasks;
    const int error = errno;
    const bool other = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3; /* one thread, . and .. */
    errno = error;
    return other;
}

int64_t fv_nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

#ifdef __linux__

int fv_cpu_here(void) { return sched_getcpu(); }

bool fv_cpus_get(uint64_t set[FV_NODE_CPUS / 64]) {
    return sched_getaffinity(0, FV_NODE_CPUS / 8, (cpu_set_t *)(void *)set) == 0;
}

bool fv_cpus_set(const uint64_t set[FV_NODE_CPUS / 64]) {
    return sched_setaffinity(0, FV_NODE_CPUS / 8, (const cpu_set_t *)(const void *)set) == 0;
}

bool fv_pages_drop(char *memory, size_t bytes, size_t *page) {
    *page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t at = (uintptr_t)memory, begin = (at + *page - 1) & -*page, end = (at + bytes) & -*page;
    return begin >= end || madvise(memory + (begin - at), end - begin, MADV_DONTNEED) == 0;
}

#else

int fv_cpu_here(void) { return -1; }
bool fv_cpus_get(uint64_t set[FV_NODE_CPUS / 64]) { return (void)set, false; }
bool fv_cpus_set(const uint64_t set[FV_NODE_CPUS / 64]) { return (void)set, false; }
bool fv_pages_drop(char *memory, size_t bytes, size_t *page) { return (void)memory, (void)bytes, (void)page, false; }

#endif
