/* Threads that are counted and refused (thread_creations.h). */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "thread_creations.h"

#include "test.h"
#include "thread_problems.h"

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

/* The linker puts this in the place of pthread_create(). */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

atomic_int creations, creations_allowed = 1 << 30;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    return creations++ < creations_allowed ? __real_pthread_create(thread, attributes, run, arg) : 11; /* EAGAIN */
}

int threads_before;

void threads_begin(void) { threads_before = threads_now(); }

int threads_now(void) {
    struct stat tasks;
    const bool known = !UNDER_TSAN && stat("/proc/self/task", &tasks) == 0;
    return known ? (int)tasks.st_nlink - 2 - threads_before : -1;
}

/* A thread that was joined leaves the list of the system's soon after. */
void check_threads(int want, const char *what) {
    int now = threads_now();
    for (int i = 0; i < 1000 && now > want; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        now = threads_now();
    }
    test_check(now < 0 || now == want, "%s: %d threads besides the first, not %d", what, now, want);
}
