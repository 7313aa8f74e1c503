/* openmp.h: asks the libraries of both for their runtime's entry point, which each finds in what it is linked to. */
#define _GNU_SOURCE
#include "openmp.h"
#include "backend_ggml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* As the library with this address finds it; NULL: without OpenMP, or part of a program. */
static void *entry_for(void *address) {
    Dl_info info;
    void *library = address && dladdr(address, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *const entry = library ? dlsym(library, "GOMP_parallel") : NULL;
    if (library)
        dlclose(library);
    return entry;
}

/* An address in ggml's CPU backend. */
static void *in_cpu_backend(void) {
    const ggml_backend_dev_t cpu = fg_ggml.backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return cpu ? fg_ggml.backend_reg_get_proc_address(fg_ggml.backend_dev_backend_reg(cpu),
                                                      "ggml_backend_set_n_threads")
               : NULL;
}

static bool shared;

static void compare(void) {
    static const char here;
    void *own = NULL;
    const void *const address = &here;
    memcpy(&own, &address, sizeof own);
    own = entry_for(own);
    shared = own && own == entry_for(in_cpu_backend());
}

bool fg_openmp_shared(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, compare);
    return shared;
}
