/* Pages of a model's file that a program has mapped, once their weights are packed. */
#ifndef FG_MAPPED_H
#define FG_MAPPED_H

#include <stddef.h>

/* Takes the whole pages of a range out of this process's memory if they are a shared mapping of a file that cannot be
 * written. Whoever reads them again gets the same bytes, from the system's cache of files. Other memory is left
 * alone. */
void fg_mapped_release(const void *data, size_t bytes);

#endif
