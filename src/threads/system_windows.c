/* Threads, locks and the clock of Windows (system.h). Which CPUs a thread runs on is left to the system. */
#include "threads/system.h"

#include <stdlib.h>
#include <string.h>
#include <windows.h>

_Static_assert(sizeof(SRWLOCK) == sizeof(fv_mutex) && sizeof(CONDITION_VARIABLE) == sizeof(fv_condition), "a word");

void fv_mutex_lock(fv_mutex *m) { AcquireSRWLockExclusive((SRWLOCK *)m); }
bool fv_mutex_try(fv_mutex *m) { return TryAcquireSRWLockExclusive((SRWLOCK *)m) != 0; }
void fv_mutex_unlock(fv_mutex *m) { ReleaseSRWLockExclusive((SRWLOCK *)m); }

void fv_condition_wait(fv_condition *c, fv_mutex *m) {
    (void)SleepConditionVariableSRW((CONDITION_VARIABLE *)c, (SRWLOCK *)m, INFINITE, 0);
}
void fv_condition_signal(fv_condition *c) { WakeConditionVariable((CONDITION_VARIABLE *)c); }
void fv_condition_broadcast(fv_condition *c) { WakeAllConditionVariable((CONDITION_VARIABLE *)c); }

typedef struct start {
    void *(*run)(void *arg);
    void *arg;
} start;

static DWORD WINAPI begin(LPVOID given) {
    const start s = *(start *)given;
    free(given);
    (void)s.run(s.arg);
    return 0;
}

int fv_threads_start(fv_thread *threads, int count, void *(*run)(void *arg), void *arg) {
    for (int i = 0; i < count; i++) {
        start *s = malloc(sizeof *s);
        if (s)
            *s = (start){run, arg};
        threads[i] = s ? CreateThread(NULL, 0, begin, s, 0, NULL) : NULL;
        if (!threads[i]) {
            free(s);
            return i;
        }
    }
    return count;
}

void fv_thread_join(fv_thread thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

bool fv_threads_other(void) { return true; }

int64_t fv_nanoseconds(void) {
    LARGE_INTEGER now, second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&second);
    const int64_t whole = now.QuadPart / second.QuadPart, part = now.QuadPart % second.QuadPart;
    return whole * INT64_C(1000000000) + part * INT64_C(1000000000) / second.QuadPart;
}

int fv_cpu_here(void) { return -1; }

/* A mask is of one group of at most 64 CPUs. Where the process has CPUs of several, none is set. */
bool fv_cpus_get(uint64_t set[FV_NODE_CPUS / 64]) {
    DWORD_PTR own = 0, all = 0;
    if (GetActiveProcessorGroupCount() != 1 || !GetProcessAffinityMask(GetCurrentProcess(), &own, &all) || own == 0)
        return false;
    memset(set, 0, FV_NODE_CPUS / 8);
    set[0] = own;
    return true;
}
bool fv_cpus_set(const uint64_t set[FV_NODE_CPUS / 64]) { return (void)set, false; }
bool fv_pages_drop(char *memory, size_t bytes, size_t *page) { return (void)memory, (void)bytes, (void)page, false; }
