/* torch's threads (pool.h): C functions that libtorch_cpu exports since 2.10, looked up in the library that the process
 * has loaded. Loads nothing itself. On systems other than Linux the library's own threads are used. */
#include "pool.h"

#include <stddef.h>

#ifndef __linux__
const py_torch_pool *py_torch_pool_find(void) { return NULL; }
#else

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char library[] = "/libtorch_cpu.so";

typedef struct look {
    unsigned long long loads; /* libraries loaded so far in the life of the process */
    char path[4096];          /* of torch's, or "" */
} look;

/* The first library suffices to know the number of loads. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1;
}

static int find_path(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    look *found = arg;
    found->loads = info->dlpi_adds;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!name || strcmp(name, library) != 0 || strlen(info->dlpi_name) >= sizeof found->path)
        return 0;
    strcpy(found->path, info->dlpi_name);
    return 1;
}

static _Atomic(const py_torch_pool *) known;
static _Atomic unsigned long long looked_at; /* loads */

/* A library is listed before its constructors have run. dlopen() waits for them, and the handle keeps it loaded. */
static const py_torch_pool *open_library(const char *path) {
    static py_torch_pool functions;
    static atomic_flag filling = ATOMIC_FLAG_INIT;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    py_torch_pool found;
    *(void **)&found.parallel_for = dlsym(handle, "torch_parallel_for");
    *(void **)&found.get_num_threads = dlsym(handle, "torch_get_num_threads");
    *(void **)&found.requires_grad = dlsym(handle, "_ZNK3c1010TensorImpl13requires_gradEv");
    *(void **)&found.is_neg = dlsym(handle, "_ZN2at6native6is_negERKNS_6TensorE");
    *(void **)&found.is_inference = dlsym(handle, "_ZN2at6native12is_inferenceERKNS_6TensorE");
    *(void **)&found.bump_version = dlsym(handle, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE");
    const bool all = found.requires_grad && found.is_neg && found.is_inference && found.bump_version;
    *(void **)&found.grad_mode_is_enabled = all ? dlsym(handle, "aoti_torch_grad_mode_is_enabled") : NULL;
    if (!found.parallel_for || !found.get_num_threads) {
        dlclose(handle);
        return NULL;
    }
    if (atomic_flag_test_and_set(&filling)) /* another thread is just there; the next call finds what it has found */
        return NULL;
    functions = found;
    atomic_store(&known, &functions);
    return &functions;
}

const py_torch_pool *py_torch_pool_find(void) {
    const py_torch_pool *torch = atomic_load_explicit(&known, memory_order_acquire);
    if (torch)
        return torch;
    unsigned long long loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    if (loads == atomic_load_explicit(&looked_at, memory_order_relaxed))
        return NULL;
    look found = {loads, ""};
    dl_iterate_phdr(find_path, &found);
    torch = found.path[0] ? open_library(found.path) : NULL;
    if (!torch)
        atomic_store(&looked_at, found.loads);
    return torch;
}
#endif
