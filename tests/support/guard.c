/* Guarded memory: see guard.h. Each block is a mapping of its own: forbidden page, pages, forbidden page. */
#define _DEFAULT_SOURCE
#include "guard.h"

#include "floats.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static guard *blocks; /* all live ones, so that a fault can be told by name */

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

/* size bytes, moved shift bytes from the guarded side; rest more bytes of addresses after the forbidden page are
 * forbidden, too. */
static guard *alloc(const char *name, size_t size, guard_side side, size_t shift, size_t rest) {
    size_t page = page_size();
    size_t pages_size = (size + shift + page - 1) / page * page;
    size_t map_size = pages_size + 2 * page + (rest + page - 1) / page * page;
    guard *g = malloc(sizeof *g);
    must(g != NULL, "guard_alloc");
    unsigned char *map = mmap(NULL, map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(map != MAP_FAILED, "guard_alloc: mmap");
    unsigned char *pages = map + page;
    if (pages_size > 0)
        must(mprotect(pages, pages_size, PROT_READ | PROT_WRITE) == 0, "guard_alloc: mprotect");
    for (size_t i = 0; i < pages_size / sizeof(float); i++)
        ((float *)pages)[i] = poison();

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
    munmap(g->pages - page_size(), g->map_size);
    free(g);
}

bool guard_intact(const guard *g, int64_t *where) {
    const unsigned char *data = g->data;
    for (const unsigned char *p = g->pages; p < g->pages + g->pages_size; p++) {
        if (p == data)
            p += g->size;
        if (p < g->pages + g->pages_size && *p != poison_byte(p)) {
            if (where)
                *where = p - data;
            return false;
        }
    }
    return true;
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
