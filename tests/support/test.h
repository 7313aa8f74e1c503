/* The frame of every test program: seed, tier, counting, replay lines, exit code.
 *
 *     int main(int argc, char **argv)
 *     {
 *         test_begin(argc, argv, "attention", NULL);
 *         rng r = rng_stream(test_seed(), "causal");
 *         test_check(status == FOVEA_OK, "plan_create: %s", fovea_error_detail());
 *         test_same(out, want, n, "causal, q_len %d", q_len);
 *         return test_end();
 *     }
 *
 * test_begin() prints program, CPU, tier, compiler and seed. FOVEA_ISA in the environment is how ctest asks for a tier:
 * a program that asked for one it did not get ends there as skipped, never as passed. Every failure is followed by a
 * line that replays it. The last line of each program is "name: N passed, N failed, N skipped", and the exit code 0
 * (passed), 1 (something failed), 77 (nothing ran) or 2 (unknown option).
 *
 * Options that every program has: --seed N (or FOVEA_TEST_SEED; the default is fixed; "random" draws one), --help.
 *
 * All of these may be called from several threads at once, except test_begin() and test_end().
 */
#ifndef FOVEA_TESTS_TEST_H
#define FOVEA_TESTS_TEST_H

#include "floats.h"
#include "fovea/fovea.h"
#include "rng.h"

#include <stdbool.h>
#include <stdint.h>

#define TEST_PRINTF(sentence, values) __attribute__((format(printf, sentence, values)))

enum { TEST_PASSED = 0, TEST_FAILED = 1, TEST_USAGE = 2, TEST_SKIPPED = 77 };

/* An option of the program's own. A table of them ends with a row whose name is NULL. */
typedef struct test_option {
    const char *name;     /* "--repeat" */
    const char *argument; /* its argument's name in --help, "N": a number; NULL: it takes none */
    const char *help;
    const char *value; /* set by test_begin(): NULL if not given; the argument, or "" if it takes none */
} test_option;

/* options may be NULL. Returns only if the tests are to run; --help, wrong options and a tier that is not there end the
 * program. Installs the handlers of guard.h. */
void test_begin(int argc, char **argv, const char *name, test_option *options);

/* The value of an option after test_begin(), or NULL. */
const char *test_option_value(const test_option *options, const char *name);

/* Prints the last line; returns the exit code. */
int test_end(void);

uint64_t test_seed(void);

/* The tier that contexts get by default in this run, and whether FOVEA_ISA asked for it. */
fovea_isa test_isa(void);
bool test_isa_asked(void);

/* A context of one thread that reads no tuning file; ends the run if there is none. */
fovea_context *test_context_untuned(void);

/* Counts one check. On failure prints the sentence and the replay line (for the first TEST_SHOWN of them). Returns ok.
 */
bool test_check(bool ok, const char *format, ...) TEST_PRINTF(2, 3);

/* Counts and prints what could not run. */
void test_skip(const char *format, ...) TEST_PRINTF(1, 2);

/* One check: n floats have the same bits. On failure says how many differ, and which is the first, in hexadecimal too.
 */
bool test_same(const float *got, const float *want, int64_t n, const char *format, ...) TEST_PRINTF(4, 5);

/* n, scaled by FOVEA_TEST_SCALE (a factor; the default is 1, or less under ThreadSanitizer); at least 1. */
int64_t test_scaled(int64_t n);

/* Whether case n of a list is one of those that are run: all of them, or as many as that factor says, evenly. */
bool test_takes(int64_t n);

/* Adds results that were counted elsewhere. */
void test_count(int64_t passed, int64_t failed, int64_t skipped);

enum { TEST_SHOWN = 20 };

#endif
