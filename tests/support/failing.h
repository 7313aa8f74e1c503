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

/* A call that is made with its 1st, 2nd, 3rd ... allocation failing, until it gets through. */
typedef struct failing {
    const char *what;
    int64_t least; /* that many allocations it has at least */
    bool persistent;
    int64_t n;    /* the allocation that fails, counted from 1 */
    bool through; /* the last call met no failure */
    bool keeps;   /* one that fails may leave blocks, for the next call to use */
    long long live_before;
} failing;

static inline bool fail_more(failing *f) {
    enum { MOST_ALLOCATIONS = 10000 };
    if (f->through || f->n == MOST_ALLOCATIONS)
        test_check(f->through && f->n > f->least, "%s allocates %" PRId64 " times", f->what, f->n - 1);
    return !f->through && f->n++ < MOST_ALLOCATIONS;
}

static inline void fail_arm(failing *f) {
    f->live_before = live;
    arm(f->n, f->persistent);
}

/* The call returned: stops failing, and checks what it did about a failure. */
static inline bool fail_called(failing *f, fovea_status status) {
    fail_at = 0;
    f->through = !failed;
    if (f->through)
        test_check(status == FOVEA_OK, "%s without a failure: %s", f->what, fovea_error_detail());
    else
        test_check(status == FOVEA_ERROR_OUT_OF_MEMORY && fovea_error_detail()[0] != '\0' &&
                       (f->keeps || live == f->live_before),
                   "%s, allocation %" PRId64 " fails: %s, %s, %lld blocks left", f->what, f->n,
                   fovea_status_name(status), fovea_error_detail(), live - f->live_before);
    return true;
}

/* Makes a call until it gets through; the statement that follows runs behind each, and has f. */
#define FAIL_EACH(text, at_least, all_later, call)                                                                     \
    for (failing f = {.what = text, .least = at_least, .persistent = all_later};                                       \
         fail_more(&f) && (fail_arm(&f), fail_called(&f, (call)));)

/* Likewise one that makes a thing, which is NULL after a failure; nothing is left when it is destroyed. */
#define FAIL_MAKING(text, at_least, all_later, made, destroy, call)                                                    \
    FAIL_EACH(text, at_least, all_later, (made = (void *)&f, call)) {                                                  \
        test_check(f.through == (made != NULL), "%s: a result in spite of a failure", f.what);                         \
        destroy(made);                                                                                                 \
        test_check(live == f.live_before, "%s: %lld blocks are left", f.what, live - f.live_before);                   \
    }

/* Likewise of what returns 0, or -1 with a sentence; made is NULL then. The sentence has word, and says that memory is
 * missing; any one will do where word is NULL. */
static inline bool fail_told(failing *f, int status, const char *sentence, const char *word) {
    fail_at = 0;
    f->through = !failed;
    const bool told = word ? strstr(sentence, "memory") && strstr(sentence, word) : sentence[0] != '\0';
    test_check(failed ? status == -1 && told : status == 0, "%s, allocation %" PRId64 ": status %d, \"%s\"", f->what,
               f->n, status, sentence);
    return true;
}

#define FAIL_READING(text, word, sentence, all_later, made, destroy, call)                                             \
    for (failing f = {.what = text, .least = 1, .persistent = all_later};                                              \
         fail_more(&f) && (fail_arm(&f), *(sentence) = '\0', made = (void *)&f, true) &&                               \
         fail_told(&f, (call), sentence, word);) {                                                                     \
        test_check(f.through == (made != NULL), "%s: a result in spite of a failure", f.what);                         \
        destroy(made);                                                                                                 \
        test_check(live == f.live_before, "%s: %lld blocks are left", f.what, live - f.live_before);                   \
    }

/* A call takes nothing from the heap; the first one may warm up the thread pool of a run-time. */
#define TAKES_NONE(text, call)                                                                                         \
    for (int round = 0; round < 2; round++) {                                                                          \
        const long long calls_before = calls;                                                                          \
        const fovea_status status = call;                                                                              \
        test_check(status == FOVEA_OK, "%s: %s", text, fovea_error_detail());                                          \
        test_check(calls == calls_before || round == 0, "%s: %lld allocations", text, calls - calls_before);           \
    }

#endif
