/* Pages and faults of Windows (guard_system.h). A fault in guard_try() goes on behind it: the handler, which may not
 * jump itself, lets the thread continue in a function that does. */
#include "guard.h"
#include "guard_system.h"

#include <windows.h>

size_t guard_page_size(void) { return 4096; }

void *guard_map(size_t size) {
    void *map = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
    guard_must(map != NULL, "VirtualAlloc");
    return map;
}

static void protect(void *pages, size_t size, DWORD how) {
    DWORD before;
    guard_must(VirtualProtect(pages, size, how, &before), "VirtualProtect");
}

void guard_open(void *pages, size_t size) { protect(pages, size, PAGE_READWRITE); }
void guard_close(void *pages, size_t size) { protect(pages, size, PAGE_NOACCESS); }
void guard_unmap(void *pages, size_t size) { (void)size, VirtualFree(pages, 0, MEM_RELEASE); }

const char *guard_signal_word(int code) {
    switch ((DWORD)code) {
    case EXCEPTION_ACCESS_VIOLATION: return "an access violation";
    case EXCEPTION_ILLEGAL_INSTRUCTION: return "an illegal instruction";
    default: return "an exception";
    }
}

static _Thread_local void **armed; /* where guard_try() of this thread is to be resumed */
static _Thread_local guard_fault caught;
static const char *after_fault = "";

static void resume(void) { __builtin_longjmp(armed, 1); }

static LONG CALLBACK on_fault(EXCEPTION_POINTERS *about) {
    const EXCEPTION_RECORD *record = about->ExceptionRecord;
    const bool memory = record->ExceptionCode == EXCEPTION_ACCESS_VIOLATION;
    if ((record->ExceptionCode & 0xc0000000) != 0xc0000000)
        return EXCEPTION_CONTINUE_SEARCH;
    const void *at = memory ? (const void *)record->ExceptionInformation[1] : record->ExceptionAddress;
    const guard_fault fault = {(int)record->ExceptionCode, at};
    if (armed) {
        caught = fault;
        about->ContextRecord->Rip = (DWORD64)(uintptr_t)resume;
        about->ContextRecord->Rsp = ((about->ContextRecord->Rsp - 256) & ~(DWORD64)15) - 8;
        return EXCEPTION_CONTINUE_EXECUTION;
    }
    char text[256];
    guard_describe(&fault, text, sizeof text);
    fprintf(stderr, "FAILED: %s\n%s\n", text, after_fault);
    return EXCEPTION_CONTINUE_SEARCH;
}

void guard_install(const char *more) {
    static bool installed;
    after_fault = more;
    if (!installed)
        AddVectoredExceptionHandler(1, on_fault);
    installed = true;
}

bool guard_try(void (*call)(void *arg), void *arg, guard_fault *fault) {
    void *here[5];
    if (__builtin_setjmp(here) == 0) {
        armed = here;
        call(arg);
        armed = NULL;
        return true;
    }
    armed = NULL;
    *fault = caught;
    return false;
}
