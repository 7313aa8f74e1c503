/* Pages (memory.h). Large allocations are in pages of 2 MiB where the system has them. In virtual machines, where a
 * guest's and a host's page tables are walked, a TLB miss costs more than reading a page of 4 KiB, and hardware
 * prefetchers stop at the end of a page. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "core/memory.h"
#include "core/size.h"

#include <stdint.h>
#include <stdlib.h>

enum { HUGE_PAGE = 2 << 20, LITTLE = 8 };

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
