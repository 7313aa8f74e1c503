/* Memory with a forbidden page at both ends, so that one byte read or written outside of an operand is a fault.
 *
 * Use: guard *g = guard_alloc("k", bytes, GUARD_END); float *k = g->data; ... guard_intact(g) ... guard_free(g);
 *   GUARD_END    the last byte is followed by the forbidden page: catches what goes past the end. Its start is as
 * aligned as the size allows, that is, usually at 4 bytes only GUARD_START  the first byte follows the forbidden page:
 * catches what goes before the start A test that wants both ends runs twice. The rest of the first or last page (the
 * slack) holds poison (NaN as floats), as does the block itself, and guard_intact() tells whether the slack still does.
 *
 * A fault within guard_try() comes back as its result; anywhere else (a worker thread, say) it is described on stderr
 * by block and distance, and ends the program as it would have without this file. test_begin() installs the handlers.
 *
 * Works under ASan and UBSan, and adds to them: sanitizers do not see the memory accesses of intrinsics.
 */
#ifndef FOVEA_TESTS_GUARD_H
#define FOVEA_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum guard_side { GUARD_END, GUARD_START } guard_side;

typedef struct guard {
    void *data; /* size bytes; for size 0, an address that may not be touched */
    size_t size;
    const char *name;     /* for messages; not copied */
    unsigned char *pages; /* the pages that may be touched: data and its slack */
    size_t pages_size;
    size_t map_size;    /* with the forbidden pages around them */
    struct guard *next; /* of all live blocks */
} guard;

/* Ends the program if there is no memory, as everything here does. Thread-safe. */
guard *guard_alloc(const char *name, size_t size, guard_side side);

/* The same with data moved shift bytes away from the guarded side, for pointers that are aligned to 4 bytes only. */
guard *guard_alloc_shifted(const char *name, size_t size, guard_side side, size_t shift);

/* The first size of whole bytes; the rest has addresses, which nothing else gets, but may not be touched. */
guard *guard_alloc_part(const char *name, size_t size, size_t whole, guard_side side);

/* NULL is allowed. */
void guard_free(guard *g);

/* Whether the slack around data is still poison. If not and where is not NULL, the offset of the first changed byte
 * from data: negative before it, >= size after it. */
bool guard_intact(const guard *g, int64_t *where);

typedef struct guard_fault {
    int signal;
    const void *address;
} guard_fault;

/* Runs call(arg) on this thread; false if it raised SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGTRAP, and then *fault says
 * which. */
bool guard_try(void (*call)(void *arg), void *arg, guard_fault *fault);

/* Writes a sentence about a fault: "SIGSEGV at byte 1024 of k, which has 1024". */
void guard_describe(const guard_fault *fault, char *text, size_t size);

/* Installs the signal handlers; more is a sentence that follows the description of a fault outside of guard_try(). */
void guard_install(const char *more);

#endif
