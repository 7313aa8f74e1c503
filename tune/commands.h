/* The commands of fovea-tune. */
#ifndef TUNE_COMMANDS_H
#define TUNE_COMMANDS_H

#include "options.h"
#include "problem.h"

int tune_run(const tune_options *options);

/* Says at once, not after a minute, that the file cannot be written. usual: nobody named it, so its folder is made. */
bool tune_may_write(const char *path, bool usual);
int tune_kind(const tune_options *options); /* run --kind */

/* Is a row for contexts of this CPU, build, tier and number of threads? own: their section of the file. */
bool tune_row_fits(const fovea_context *ctx, const fv_tuning_row *row, int own);

/* This machine's defaults for the fields of a row, for a shape in the middle of its class. */
void tune_default_text(const fovea_context *ctx, const fv_tuning_row *row, char *text, size_t size);

int tune_show(const tune_options *options);
int tune_check(const tune_options *options);
int tune_merge(const tune_options *options);
/* The rows as the file of known CPUs has them: of models of CPU, and for any number of threads where that may be. And
 * writes such a file, with the comments that the old one begins with. */
fovea_tuning *tune_ship(const fovea_tuning *from, char error[FV_FILE_ERROR]);
fovea_status tune_ship_write(const char *path, const fovea_tuning *tuning, char error[FV_FILE_ERROR]);

int tune_report(const tune_options *options);

/* The path of a program in fovea-tune's folder; where it was found by PATH, its name alone. */
void tune_program_path(const char *program, const char *name, char *path, size_t size);

/* Ends a run that wrote to path and has a status: runs fovea-tune-ggml if it is installed. Returns the status of
 * both. */
int tune_ggml(const tune_options *options, const char *path, int status);

/* run --each-host: becomes fovea-tune-each-host, or fails. */
int tune_each_host(int argc, char **argv, const tune_options *options);

#endif
