/* Pages of Windows (memory.h): of 4 KiB, as large ones need a privilege. */
#include "core/memory.h"
#include "core/size.h"

#include <malloc.h>

void *fv_allocate_pages(size_t bytes) { return _aligned_malloc(bytes, FV_ALIGNMENT); }

void fv_free_pages(void *memory) { _aligned_free(memory); }

void *fv_allocate_shared(size_t bytes, bool *shared) {
    *shared = false;
    return fv_allocate_pages(bytes);
}

void fv_free_shared(void *memory) { fv_free_pages(memory); }
