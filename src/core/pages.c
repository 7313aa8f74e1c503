/* Pages (memory.h). Large allocations are in pages of 2 MiB where the system has them. In virtual machines, where a
 * guest's and a host's page tables are walked, a TLB miss costs more than reading a page of 4 KiB, and hardware
 * prefetchers stop at the end of a page. Several smaller allocations share a slab of such pages. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "core/memory.h"
#include "core/size.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef __has_feature /* clang's */
#define __has_feature(name) 0
#endif

enum {
    HUGE_PAGE = 2 << 20,
    LITTLE = 8,
    SLAB = 64 << 20,
    SHARED_LEAST = 256 << 10,
    SHARED_MOST = 32 << 20,
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
    SHARING = 0, /* so that it sees what reads past an end */
#else
    SHARING = 1,
#endif
    SMALL_PAGE = 64 << 10 /* the largest that is Linux's smallest somewhere (Arm) */
};

void *fv_allocate_pages(size_t bytes) {
    const size_t alignment = bytes < HUGE_PAGE ? (size_t)FV_ALIGNMENT : (size_t)HUGE_PAGE;
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    const size_t all = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, all);
#ifdef MADV_HUGEPAGE
    if (memory && bytes >= HUGE_PAGE) /* the last one too, where little of it is not touched */
        (void)madvise(memory, all - bytes <= bytes / LITTLE ? all : all - HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return memory;
}

/* At a multiple of SLAB, before what it holds. */
typedef struct slab {
    _Atomic int64_t users;               /* allocations that are not freed, and `current` or who took it from there */
    size_t used;                         /* bytes; read and written by who took it */
    uint16_t pages[SLAB / SHARED_LEAST]; /* small pages of what begins in each SHARED_LEAST bytes */
} slab;

static _Atomic(slab *) current; /* the slab that has room; NULL: there is none, or a thread has taken it */

static void drop(slab *s) {
    if (s && atomic_fetch_sub(&s->users, 1) == 1)
        free(s);
}

static void put_back(slab *s) { drop(atomic_exchange(&current, s)); }

static slab *make_slab(void) {
    slab *s = aligned_alloc(SLAB, SLAB);
    if (!s)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(s, SLAB, MADV_HUGEPAGE);
#endif
    atomic_init(&s->users, 1);
    s->used = SMALL_PAGE;
    return s;
}

void *fv_allocate_shared(size_t bytes, bool *shared) {
    *shared = SHARING && bytes >= SHARED_LEAST && bytes <= SHARED_MOST;
    if (!*shared)
        return fv_allocate_pages(bytes);
    slab *s = atomic_exchange(&current, NULL);
    if (s && s->used + bytes > SLAB) {
        drop(s);
        s = NULL;
    }
    s = s ? s : make_slab();
    if (!s)
        return NULL;
    char *memory = (char *)s + s->used;
    const size_t pages = (bytes + SMALL_PAGE - 1) / SMALL_PAGE;
    s->pages[s->used / SHARED_LEAST] = (uint16_t)pages;
    s->used += pages * SMALL_PAGE;
    atomic_fetch_add(&s->users, 1);
    put_back(s);
    return memory;
}

void fv_free_shared(void *memory) {
    if (!memory)
        return;
    const size_t at = (uintptr_t)memory % SLAB;
    slab *s = (slab *)(void *)((char *)memory - at);
#ifdef MADV_DONTNEED /* others may keep the slab for long */
    (void)madvise(memory, (size_t)s->pages[at / SHARED_LEAST] * SMALL_PAGE, MADV_DONTNEED);
#endif
    const int64_t users = atomic_fetch_sub(&s->users, 1);
    if (users == 1)
        free(s);
    if (users != 2)
        return;
    slab *last = atomic_exchange(&current, NULL); /* whose only user may be `current` now */
    if (last == s && atomic_load(&s->users) == 1)
        free(s);
    else if (last)
        put_back(last);
}
