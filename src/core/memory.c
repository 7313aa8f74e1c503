/* Large allocations (memory.h). A page of 4 KiB is read in less time than it takes to look up the next one where page
 * tables are two, a guest's and its host's; hardware does not fetch past its end, and gives up what is fetched where
 * the look-up is not in its cache. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "core/memory.h"
#include "core/size.h"

#include <stdint.h>
#include <stdlib.h>

enum { HUGE_PAGE = 2 << 20 };

void *fv_allocate_pages(size_t bytes) {
    const size_t alignment = bytes < HUGE_PAGE ? (size_t)FV_ALIGNMENT : (size_t)HUGE_PAGE;
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#ifdef MADV_HUGEPAGE
    if (memory && bytes >= HUGE_PAGE) /* whole ones: what is behind the last is not touched, and takes no memory */
        (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return memory;
}
