/* Pages and faults of POSIX (guard_system.h). */
#define _DEFAULT_SOURCE
#include "guard.h"
#include "guard_system.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t guard_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *guard_map(size_t size) {
    void *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    guard_must(map != MAP_FAILED, "mmap");
    return map;
}

void guard_open(void *pages, size_t size) {
    guard_must(mprotect(pages, size, PROT_READ | PROT_WRITE) == 0, "mprotect");
}

void guard_close(void *pages, size_t size) { guard_must(mprotect(pages, size, PROT_NONE) == 0, "mprotect"); }

void guard_unmap(void *pages, size_t size) { munmap(pages, size); }

const char *guard_signal_word(int signal) {
    switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    default: return "SIGTRAP";
    }
}

static _Thread_local sigjmp_buf *armed; /* where guard_try() of this thread is to be resumed */
static _Thread_local guard_fault caught;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };
static struct sigaction previous[FATAL_SIGNALS];
static const char *after_fault = "";

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
        guard_must(sigaction(fatal_signals[i], &action, &previous[i]) == 0, "sigaction");
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
