/* Memory that lives long and is read from front to back. */
#ifndef FV_MEMORY_H
#define FV_MEMORY_H

#include <stddef.h>

/* Bytes on a boundary of FV_ALIGNMENT, to be freed by free(); NULL: there is no memory. Of 2 MiB or more, pages of that
 * size are asked for. */
void *fv_allocate_pages(size_t bytes);

#endif
