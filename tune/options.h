/* Options of fovea-tune, and of programs that search as it does, with some of their own (fovea-tune-regret). */
#ifndef TUNE_OPTIONS_H
#define TUNE_OPTIONS_H

#include "cli.h"
#include "fovea/fovea.h"

#include <stdbool.h>

/* Exit statuses. */
enum {
    TUNE_GOOD = 0,
    TUNE_DRIFT = 1,
    TUNE_USAGE = 2,
    TUNE_NOISY = 3,
    TUNE_FAILED = 4,
    TUNE_INCOMPATIBLE = 5,
    TUNE_STOPPED = 130
};

typedef enum tune_effort { EFFORT_quick, EFFORT_normal, EFFORT_thorough } tune_effort;

enum { TUNE_WORDS = 64 };

typedef struct tune_shape_list {
    const char *text[TUNE_WORDS];
    int count;
} tune_shape_list;

typedef struct tune_options {
    const char *command;
    double budget; /* seconds */
    tune_effort effort;
    tune_shape_list shapes; /* --shape */
    const char *presets;    /* names, parted by commas */
    const char *log;        /* of FOVEA_LOG_SHAPES */
    const char *output;
    fovea_isa isa;
    int threads;
    bool dry_run, json, quiet, each_host, kind;
    const char *files[TUNE_WORDS]; /* what is no option */
    int file_count;
} tune_options;

/* Reads them; a sentence to stderr and TUNE_USAGE if they are wrong, -1 if the program goes on. --help, --version and
 * the commands man and completion end here, too. */
int tune_options_read(int argc, char **argv, tune_options *options);

enum { TUNE_REGRET = 64 }; /* the bit of options that such a program takes */

cli_reader tune_read_seconds; /* a double of 90, 90s, 5m */

/* Fills options, with which the caller's own struct begins: own options have their offsets in that. program: its name,
 * help and exit statuses, all else is set here. Returns as tune_options_read(). */
int tune_options_read_with(const cli *program, const cli_option *own, int own_count, int argc, char **argv,
                           tune_options *options);

#endif
