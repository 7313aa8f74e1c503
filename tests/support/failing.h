/* Allocations that fail when told to, for one file of a test program.
 *
 * The linker puts the functions below in place of malloc and its like in the program and in the static libraries that
 * are linked into it (fovea_wrap_allocation() of FoveaTest.cmake), but not in shared ones. They count calls and live
 * blocks, and can let the n-th call fail. */
#ifndef FOVEA_TESTS_FAILING_H
#define FOVEA_TESTS_FAILING_H

#include "test.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static atomic_llong calls, live, asked; /* asked: bytes */
static atomic_llong
    fail_at; /* the call, counted from 1, that fails; 0: none. All later ones too if fail_persistently. */
static atomic_bool fail_persistently, failed;

static bool allowed(void) {
    long long call = ++calls, at = fail_at;
    if (at == 0 || (fail_persistently ? call < at : call != at))
        return true;
    failed = true;
    return false;
}

static void *counted(void *block) {
    if (block)
        live++;
    return block;
}

/* New memory holds NaN, as floats of any type. */
static void *dirty(void *block, size_t size) {
    if (block && size <= (size_t)1 << 24)
        memset(block, 0xff, size);
    return counted(block);
}

/* The names that --wrap makes: __real_* are the C library's. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);
void __wrap_free(void *block);

void *__wrap_malloc(size_t size) {
    asked += (long long)size;
    return allowed() ? dirty(__real_malloc(size), size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size) {
    asked += (long long)(n * size);
    return allowed() ? counted(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *block, size_t size) {
    asked += (long long)size;
    if (!allowed())
        return NULL;
    void *moved = __real_realloc(block, size);
    if (block == NULL && moved)
        live++;
    return moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return allowed() ? dirty(__real_aligned_alloc(alignment, size), size) : NULL;
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
    if (!allowed())
        return 12; /* ENOMEM */
    int error = __real_posix_memalign(block, alignment, size);
    if (error == 0)
        live++;
    return error;
}

void __wrap_free(void *block) {
    if (block)
        live--;
    __real_free(block);
}

/* From now on the n-th call fails, and all later ones too if so told. */
static inline void arm(int64_t n, bool persistent) {
    calls = 0;
    failed = false;
    fail_persistently = persistent;
    fail_at = n;
}

/* The call returned: stops failing, checks its status, and tells whether it got through without meeting the failure. */
static inline bool disarm(const char *what, int64_t n, fovea_status status, long long live_before) {
    fail_at = 0;
    if (!failed)
        return test_check(status == FOVEA_OK, "%s without a failure: %s", what, fovea_error_detail());
    test_check(status == FOVEA_ERROR_OUT_OF_MEMORY, "%s, allocation %" PRId64 " fails: %s", what, n,
               fovea_status_name(status));
    test_check(fovea_error_detail()[0] != '\0', "%s, allocation %" PRId64 " fails: no sentence", what, n);
    test_check(live == live_before, "%s, allocation %" PRId64 " fails: %lld blocks left", what, n, live - live_before);
    return false;
}

/* Makes a thing by a call whose 1st, 2nd, 3rd ... allocation fails, until one call gets through; what failed gives
 * NULL. n counts the calls, less than 1000. */
#define FAIL_MAKING(what, n, persistent, made, call)                                                                   \
    for (bool through = (n = 0, false); !through && n < 1000;) {                                                       \
        const long long live_before = live;                                                                            \
        made = (void *)&n;                                                                                             \
        arm(++n, persistent);                                                                                          \
        const fovea_status status = call;                                                                              \
        through = disarm(what, n, status, live_before) || !failed;                                                     \
        test_check((status == FOVEA_OK) == (made != NULL), "%s: a result in spite of a failure", what);                \
    }

#endif
