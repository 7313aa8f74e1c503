/* Options of fovea-tune. */
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
    const char *program, *command;
    double budget; /* seconds */
    tune_effort effort;
    tune_shape_list shapes; /* --shape */
    const char *presets;    /* names, parted by commas */
    const char *log;        /* of FOVEA_LOG_SHAPES */
    const char *model;      /* a GGUF file */
    const char *output;
    fovea_isa isa;
    int threads;
    bool dry_run, json, quiet, each_host, kind, ship;
    const char *files[TUNE_WORDS]; /* what is no option */
    int file_count;
} tune_options;

/* Reads them; a sentence to stderr and TUNE_USAGE if they are wrong, -1 if the program goes on. --help, --version,
 * --man and --completion end here, too. */
int tune_options_read(int argc, char **argv, tune_options *options);

#endif
