/* A machine that is described in place of the one that is there: its facts come from a text of tests/machines.
 *
 * Programs that link this (fovea_described_machines() of FoveaTest.cmake) get, once machine_enter() was called, the
 * described facts from fv_cpu_detect(), and the threads of OpenMP that such a machine would have. What is selected,
 * planned and tuned is then what that machine would have. Nothing is executed that this CPU lacks: rows of the kernel
 * list whose tier or features it has not run the portable tier's code, whose bits they give, and threads are bound to
 * no node. */
#ifndef FOVEA_TESTS_DESCRIBED_H
#define FOVEA_TESTS_DESCRIBED_H

#include "cpu/cpu.h"
#include "test.h"

enum { MACHINE_WHY = 128 };

/* From now on this process is on the machine of that file. False: why says what of it this build or architecture has
 * not got, and nothing changed. A file that cannot be read, or has a word that is not known, ends the program. */
bool machine_enter(const char *path, char why[MACHINE_WHY]);

/* test_begin() of a program whose options have MACHINE_OPTION, on the machine that it names; on this one where it is
 * not given. Ends the program as skipped where that cannot be entered. Returns the description's path, or NULL. */
#define MACHINE_OPTION                                                                                                 \
    { "--machine", "FILE", "run on the machine described there, tests/machines/NAME.txt", NULL }
const char *machine_test_begin(int argc, char **argv, const char *name, test_option *options);

/* Its facts, after machine_enter(). */
const fv_cpu *machine_facts(void);

/* Removes from the environment all that the library would read: FOVEA_*, and the folders of users; and no rows that an
 * installed library ships are found. */
void machine_clear_environment(void);

#endif
