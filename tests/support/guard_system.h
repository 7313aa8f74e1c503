/* The seam to the system of guard.c: pages and faults, in guard_posix.c or guard_windows.c. All but guard_signal_word()
 * end the program where they fail. */
#ifndef FOVEA_TESTS_GUARD_SYSTEM_H
#define FOVEA_TESTS_GUARD_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static inline void guard_must(bool ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

size_t guard_page_size(void);
void *guard_map(size_t size); /* pages that may not be touched */
void guard_open(void *pages, size_t size);
void guard_close(void *pages, size_t size);
void guard_unmap(void *pages, size_t size);
const char *guard_signal_word(int signal);

#endif
