/* Memory that lives long and is read from front to back, and the workspaces of calls. */
#ifndef FV_MEMORY_H
#define FV_MEMORY_H

#include "fovea/types.h"

#include <stdbool.h>
#include <stdlib.h>

/* Bytes on a boundary of FV_ALIGNMENT, for fv_free_pages(); NULL: there is no memory. Of 2 MiB or more, pages of that
 * size are asked for, where the system has such. */
void *fv_allocate_pages(size_t bytes);
#ifdef _WIN32
void fv_free_pages(void *memory);
#else
static inline void fv_free_pages(void *memory) { free(memory); }
#endif

/* The same for one of many things that are smaller than such pages, as experts' weights are: if *shared, others have
 * parts of the same pages, and it is for fv_free_shared(). Thread-safe. */
void *fv_allocate_shared(size_t bytes, bool *shared);
void fv_free_shared(void *memory);

/* The caller's workspace of bytes bytes on a boundary, or, where there is none, memory that *own is to be freed of.
 * bytes < 0: more than memory has. */
fovea_status fv_call_workspace(int64_t bytes, void *workspace, size_t size, void **own, char **base);

#endif
