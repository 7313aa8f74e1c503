/* Guarded memory: see guard.h. Each block is a mapping of its own: forbidden page, pages, forbidden page. */
#define _DEFAULT_SOURCE
#include "guard.h"

#include "floats.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static guard *blocks; /* all live ones, so that a fault can be told by name */

/* Mappings of freed blocks, forbidden as a whole, for later blocks of the same pages: to map and unmap takes longer
 * than most trials. */
enum { SPARES = 64 };
static struct {
    unsigned char *map;
    size_t pages_size, map_size;
} spare[SPARES];
static int spares;

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void must(bool ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

/* The poison's byte at that address. */
static unsigned char poison_byte(const unsigned char *address) {
    float value = poison();
    return ((const unsigned char *)&value)[(uintptr_t)address % sizeof value];
}

static unsigned char *take_spare(size_t pages_size, size_t map_size) {
    unsigned char *map = NULL;
    pthread_mutex_lock(&blocks_lock);
    for (int i = 0; i < spares && !map; i++)
        if (spare[i].pages_size == pages_size && spare[i].map_size == map_size) {
            map = spare[i].map;
            spare[i] = spare[--spares];
        }
    pthread_mutex_unlock(&blocks_lock);
    return map;
}

/* Whether there was room for it. */
static bool keep_spare(const guard *g) {
    if (g->map_size > 1 << 20)
        return false;
    pthread_mutex_lock(&blocks_lock);
    const bool room = spares < SPARES;
    if (room) {
        spare[spares].map = g->pages - page_size();
        spare[spares].pages_size = g->pages_size;
        spare[spares++].map_size = g->map_size;
    }
    pthread_mutex_unlock(&blocks_lock);
    return room;
}

/* size bytes, moved shift bytes from the guarded side; rest more bytes of addresses after the forbidden page are
 * forbidden, too. */
static guard *alloc(const char *name, size_t size, guard_side side, size_t shift, size_t rest) {
    size_t page = page_size();
    size_t pages_size = (size + shift + page - 1) / page * page;
    size_t map_size = pages_size + 2 * page + (rest + page - 1) / page * page;
    guard *g = malloc(sizeof *g);
    must(g != NULL, "guard_alloc");
    unsigned char *map = take_spare(pages_size, map_size);
    if (!map)
        map = mmap(NULL, map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(map != MAP_FAILED, "guard_alloc: mmap");
    unsigned char *pages = map + page;
    if (pages_size > 0)
        must(mprotect(pages, pages_size, PROT_READ | PROT_WRITE) == 0, "guard_alloc: mprotect");
    if (pages_size > 0)
        *(float *)pages = poison();
    for (size_t done = sizeof(float), n; done < pages_size; done += n) {
        n = done < pages_size - done ? done : pages_size - done;
        memcpy(pages + done, pages, n);
    }

    g->data = side == GUARD_START ? pages + shift : pages + pages_size - shift - size;
    g->size = size;
    g->name = name;
    g->pages = pages;
    g->pages_size = pages_size;
    g->map_size = map_size;
    pthread_mutex_lock(&blocks_lock);
    g->next = blocks;
    blocks = g;
    pthread_mutex_unlock(&blocks_lock);
    return g;
}

guard *guard_alloc(const char *name, size_t size, guard_side side) { return alloc(name, size, side, 0, 0); }

guard *guard_alloc_shifted(const char *name, size_t size, guard_side side, size_t shift) {
    return alloc(name, size, side, shift, 0);
}

guard *guard_alloc_part(const char *name, size_t size, size_t whole, guard_side side) {
    return alloc(name, size, side, 0, whole - size);
}

void guard_free(guard *g) {
    if (g == NULL)
        return;
    pthread_mutex_lock(&blocks_lock);
    guard **link = &blocks;
    while (*link != g)
        link = &(*link)->next;
    *link = g->next;
    pthread_mutex_unlock(&blocks_lock);
    if (g->pages_size > 0)
        must(mprotect(g->pages, g->pages_size, PROT_NONE) == 0, "guard_free: mprotect");
    if (!keep_spare(g))
        munmap(g->pages - page_size(), g->map_size);
    free(g);
}

/* The first byte that is no poison, or NULL. Where all is, its first four bytes are, and each byte is as the fourth
 * before it. */
static const unsigned char *first_changed(const unsigned char *p, const unsigned char *end) {
    const unsigned char *start = p;
    while (p < end && *p == poison_byte(p)) {
        p++;
        if (p - start == sizeof(float) && memcmp(start, p, (size_t)(end - p)) == 0)
            return NULL;
    }
    return p < end ? p : NULL;
}

bool guard_intact(const guard *g, int64_t *where) {
    const unsigned char *data = g->data, *changed = first_changed(g->pages, data);
    if (!changed)
        changed = first_changed(data + g->size, g->pages + g->pages_size);
    if (changed && where)
        *where = changed - data;
    return !changed;
}

static _Thread_local sigjmp_buf *armed; /* where guard_try() of this thread is to be resumed */
static _Thread_local guard_fault caught;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };
static struct sigaction previous[FATAL_SIGNALS];
static const char *after_fault = "";

static const char *signal_word(int signal) {
    switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    default: return "SIGTRAP";
    }
}

void guard_describe(const guard_fault *fault, char *text, size_t size) {
    const unsigned char *address = fault->address;
    const char *word = signal_word(fault->signal);
    for (const guard *g = blocks; g; g = g->next) {
        const unsigned char *data = g->data;
        if (address < g->pages - page_size() || address >= g->pages + g->pages_size + page_size())
            continue;
        snprintf(text, size, "%s at byte %td of %s, which has %zu", word, address - data, g->name, g->size);
        return;
    }
    snprintf(text, size, "%s at %p, in no guarded block", word, fault->address);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    guard_fault fault = {signal, info->si_addr};
    if (armed) {
        caught = fault;
        siglongjmp(*armed, 1);
    }
    /* Not async-signal-safe, but the program is lost anyway and its author wants to know why. */
    char text[256];
    guard_describe(&fault, text, sizeof text);
    fprintf(stderr, "FAILED: %s\n%s\n", text, after_fault);
    for (int i = 0; i < FATAL_SIGNALS; i++)
        if (fatal_signals[i] == signal) {
            sigaction(signal, &previous[i], NULL);
            if (previous[i].sa_flags & SA_SIGINFO) /* a sanitizer's report, with the stack */
                previous[i].sa_sigaction(signal, info, context);
        }
}

void guard_install(const char *more) {
    static bool installed;
    after_fault = more;
    if (installed)
        return;
    installed = true;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags =
        SA_SIGINFO | SA_NODEFER; /* guard_try() leaves the handler by a jump, so the signal must stay open */
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < FATAL_SIGNALS; i++)
        must(sigaction(fatal_signals[i], &action, &previous[i]) == 0, "sigaction");
}

bool guard_try(void (*call)(void *arg), void *arg, guard_fault *fault) {
    sigjmp_buf here;
    if (sigsetjmp(here, 0) == 0) {
        armed = &here;
        call(arg);
        armed = NULL;
        return true;
    }
    armed = NULL;
    *fault = caught;
    sigset_t blocked; /* as signals are in their handler, which a jump leaves without undoing that */
    sigemptyset(&blocked);
    for (int i = 0; i < FATAL_SIGNALS; i++)
        sigaddset(&blocked, fatal_signals[i]);
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    return false;
}
