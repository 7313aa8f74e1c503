/* Options of programs that search as fovea-tune does, with some of their own (fovea-tune-regret). */
#ifndef TUNE_OPTIONS_H
#define TUNE_OPTIONS_H

#include "cli.h"
#include "tune.h"

enum { TUNE_REGRET = 64 }; /* the bit of options that such a program takes */

cli_reader tune_read_seconds; /* a double of 90, 90s, 5m */

/* Fills options, with which the caller's own struct begins: own options have their offsets in that. program: its name,
 * help and exit statuses, all else is set here. Returns as tune_options_read(). */
int tune_options_read_with(const cli *program, const cli_option *own, int own_count, int argc, char **argv,
                           tune_options *options);

#endif
