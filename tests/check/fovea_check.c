/* fovea-check: tests every kernel of the list that this CPU can run.
 *
 *     fovea-check                           all of them
 *     fovea-check -k 'multiply_*' --isa avx2    some of them
 *     fovea-check --list                    their names
 *     fovea-check --repeat 10               with ten seeds, one after another
 *     fovea-check --flush-to-zero           under that mode, in which the rows of all tiers must agree, too
 *     fovea-check --room                    under an emulator that reads what masked loads leave out
 *     fovea-check --self-test               the check itself, against kernels broken on purpose
 *
 * Under FOVEA_ISA (as ctest runs it) only the rows of that tier are checked. Rows that were asked for and that the CPU
 * cannot run are printed and counted as skipped. What is checked: check.h. Nothing here names a kernel: a new row in
 * kernels/kernels.inc is checked from its first build on, a new operation by one op_check.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include "abi.h"
#include "dispatch/dispatch.h"
#include "fp_control.h"
#include "target.h"
#include "test.h"

#ifndef _WIN32
#include <fnmatch.h>
#endif
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32 /* has none: here without [...] */
static int fnmatch(const char *pattern, const char *text, int flags) {
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            do
                if (fnmatch(pattern + 1, text, flags) == 0)
                    return 0;
            while (*text++);
            return 1;
        }
        if (!*text || (*pattern != '?' && *pattern != *text))
            return 1;
    }
    return *text != 0;
}
#endif

static test_option options[] = {
    {"--list", NULL, "print the names of the kernels, best first", NULL},
    {"-k", "GLOB", "test only kernels whose name matches", NULL},
    {"--isa", "TIER", "test only kernels of this tier (default: all, or FOVEA_ISA)", NULL},
    {"--repeat", "N", "run with N seeds, counting up from the first", NULL},
    {"--flush-to-zero", NULL, "call the kernels with flush-to-zero set, as a caller may", NULL},
    {"--room", NULL, "leave room behind operands: qemu 7.2 reads what vmaskmovps leaves out", NULL},
    {"--self-test", NULL, "check that broken kernels are detected", NULL},
    {NULL, NULL, NULL, NULL},
};

static int usage_error(const char *sentence) {
    fprintf(stderr, "fovea-check: %s (see fovea-check --help, --list)\n", sentence);
    return TEST_USAGE;
}

/* Whether the options ask for that row. */
static bool wanted(const fv_kernel *kernel) {
    const char *glob = test_option_value(options, "-k"), *isa = test_option_value(options, "--isa");
    if (!isa && test_isa_asked())
        isa = fovea_isa_name(test_isa());
    return (!glob || fnmatch(glob, kernel->name, 0) == 0) && (!isa || strcmp(isa, fv_isa_word(kernel->isa)) == 0);
}

static void check_row(const fv_kernel *kernel, uint64_t seed) {
    checker c = {.kernel = kernel, .reference = fv_kernel_reference(kernel), .seed = seed};
    c.flush = test_option_value(options, "--flush-to-zero") != NULL;
    c.room = test_option_value(options, "--room") != NULL;
    check_kernel(&c);
    printf("%-7s %-30s %7" PRId64 " calls compared", c.failed ? "FAILED" : "ok", kernel->name, c.compared);
    if (c.failed)
        printf(", %" PRId64 " wrong", c.failed);
    printf("\n");
    test_count(c.failed == 0, c.failed != 0, 0);
}

static int list_rows(void) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (wanted(&fv_kernels[i]))
            printf("%s\n", fv_kernels[i].name);
    return TEST_PASSED;
}

/* One pass over the wanted rows; returns how many there are. */
static int check_rows(uint64_t seed) {
    int rows = 0;
    for (int i = 0; i < fv_kernel_count; i++) {
        const fv_kernel *kernel = &fv_kernels[i];
        if (!wanted(kernel))
            continue;
        rows++;
        if (test_runs(kernel))
            check_row(kernel, seed);
    }
    return rows;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "fovea-check", options);
    const char *repeat = test_option_value(options, "--repeat");
    const long repeats = repeat ? strtol(repeat, NULL, 10) : 1;
    if (repeats < 1)
        return usage_error("--repeat needs a number of at least 1");
    if (test_option_value(options, "--list"))
        return list_rows();
    printf("watched at each call: %s\n", abi_observed());
    if (test_option_value(options, "--self-test")) {
        check_breaches(test_seed());
        check_faults(test_seed());
        check_mutants(test_seed());
        return test_end();
    }
    if (test_option_value(options, "--flush-to-zero") && !FP_FLUSH) {
        test_skip("everything: flush-to-zero cannot be set here");
        return test_end();
    }
    for (long r = 0; r < repeats; r++)
        if (check_rows(test_seed() + (uint64_t)r) == 0)
            return usage_error("no row matches");
    return test_end();
}
