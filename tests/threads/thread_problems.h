/* Problems with their answers by the scalar tier on one thread, which many threads solve at once: of tests of
 * threads. */
#ifndef FOVEA_TESTS_THREAD_PROBLEMS_H
#define FOVEA_TESTS_THREAD_PROBLEMS_H

#include "attention_case.h"

enum {
    PROBLEMS = 10,
    SPLIT_WEIGHTS = 2, /* rows that are split over segments, with weights */
    MASKED             /* by a boolean mask */
};

/* ThreadSanitizer ends a forked child that starts threads, and has threads of its own. */
#ifdef __SANITIZE_THREAD__
enum { UNDER_TSAN = 1 };
#else
enum { UNDER_TSAN = 0 };
#endif

/* Read by many threads at once. */
typedef struct problem {
    attention_case c;
    inputs *in;
    outputs *want;
} problem;

extern problem problems[PROBLEMS];

void problems_make(void);
void problems_free(void);

/* Solves a problem with a context and compares. */
void problem_solve(const problem *p, const fovea_context *ctx, const char *what);

/* The CPU on which the calling thread runs, and runs from now on: on Linux; else 0, and nothing. */
int thread_cpu(void);
void thread_run_on(int cpu);

#endif
