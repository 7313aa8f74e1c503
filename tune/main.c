/* fovea-tune: the best kernels and blocks for this machine, proved (docs/tuning.md).
 *
 * A run: shapes (shapes.c) fall into classes (classes.c), each a box of sizes that one row of the tuning file
 * covers. For each class search.c looks among candidates (candidates.c) for
 * a choice that is faster than the default, by measurements (measure.c) of problems (problem.c), and proof.c proves it
 * on shapes that the search did not see. run.c puts what was proved into the file. Operations are known to shapes.c,
 * classes.c and problem.c only, fields of choices to nobody here: tables of knobs (tuning/rows.h) have them, and what
 * a tuner tries of each. */
#include "commands.h"
#include "machine.h"
#include "output.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tune_stopped;

/* Ends soon, with what was proved stored; the second time at once. A terminal that is closed may hang up twice. */
static void stop(int number) {
    if (tune_stopped == number && number != SIGHUP)
        _exit(TUNE_STOPPED);
    tune_stopped = number;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = stop}, before;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &action, NULL);
}

const char *tune_default_file(void) {
    static char place[FV_TUNING_PATH];
    const char *environment = getenv("FOVEA_TUNING_FILE");
    if (environment && *environment)
        return environment;
    for (int i = 0; !place[0] && fv_file_of_tuning(i, place, sizeof place); i++)
        ;
    return place;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const tune_options *options);
    } commands[] = {
        {"run", tune_run}, {"show", tune_show}, {"check", tune_check}, {"merge", tune_merge}, {"report", tune_report}};
    tune_options options;
    int status = tune_options_read(argc, argv, &options);
    catch_signals();
    if (status < 0 && options.each_host)
        return tune_each_host(argc, argv, &options);
    if (status < 0 && options.output && !options.kind && !tune_output_begin(options.output)) {
        perror("fovea-tune: standard output");
        status = TUNE_FAILED;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] && status < 0; i++)
        if (strcmp(commands[i].name, options.command) == 0)
            status = commands[i].run(&options);
    tune_problem_end();
    return status;
}
