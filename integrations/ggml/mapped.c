/* Gives mapped pages of a file back (mapped.h). Only a shared mapping without permission to write has nothing to lose
 * by MADV_DONTNEED, so the system's list of mappings is asked. */
#define _GNU_SOURCE
#include "mapped.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Is all of the range in one such mapping? */
static bool of_file(uintptr_t begin, uintptr_t end) {
    FILE *list = fopen("/proc/self/maps", "re");
    char line[512], flags[5];
    unsigned long from, to, inode;
    bool found = false;
    while (list && !found && fgets(line, sizeof line, list))
        found = sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, flags, &inode) == 4 && from <= begin && end <= to &&
                strcmp(flags, "r--s") == 0 && inode != 0;
    if (list)
        fclose(list);
    return found;
}

void fg_mapped_release(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + bytes) / page * page;
    if (begin < end && of_file(begin, end))
        madvise((char *)data + (begin - (uintptr_t)data), end - begin, MADV_DONTNEED);
}
