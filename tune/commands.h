/* The commands of fovea-tune. */
#ifndef TUNE_COMMANDS_H
#define TUNE_COMMANDS_H

#include "options.h"

int tune_run(const tune_options *options);
int tune_kind(const tune_options *options); /* run --kind */
int tune_show(const tune_options *options);
int tune_check(const tune_options *options);
int tune_merge(const tune_options *options);
int tune_explain(const tune_options *options);
int tune_report(const tune_options *options);

/* run --each-host: becomes fovea-tune-each-host, or fails. */
int tune_each_host(int argc, char **argv, const tune_options *options);

#endif
