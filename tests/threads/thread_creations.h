/* Threads that a test's process makes: they are counted, and may be refused. For tests that the linker gives this
 * pthread_create() (--wrap). */
#ifndef FOVEA_TESTS_THREAD_CREATIONS_H
#define FOVEA_TESTS_THREAD_CREATIONS_H

#include <stdatomic.h>

/* Calls of pthread_create(); after how many it fails. */
extern atomic_int creations, creations_allowed;

/* Threads of the process before its first of the test's: one, but for an emulator's and ThreadSanitizer's. */
extern int threads_before;
void threads_begin(void); /* counts them */

/* Other threads than those; -1: unknown. Checks that there are as many as wanted, at least soon. */
int threads_now(void);
void check_threads(int want, const char *what);

#endif
