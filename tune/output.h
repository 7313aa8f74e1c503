/* Where what fovea-tune makes goes. */
#ifndef TUNE_OUTPUT_H
#define TUNE_OUTPUT_H

#include "tuning/tuning.h"

#include <jansson.h>

/* "-", where a file is to be written: the standard output, for machines on which nothing can be written. What is else
 * printed there goes to stderr then, from tune_output_begin() on. */
bool tune_is_standard_output(const char *path);
bool tune_output_begin(const char *path);
fovea_status tune_output_write(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]);

/* Prints JSON if `print` is set, and frees it. */
void tune_output_json(bool print, json_t *all);

/* The text of a tuning; of a file, between fv_file_lock() and fv_file_unlock(). */
fovea_status tune_output_tuning(const char *path, const fovea_tuning *tuning, char error[FV_FILE_ERROR]);

/* The file that is written where none is named: FOVEA_TUNING_FILE, or the first place of the search path that the
 * environment names: without HOME that is the one in /etc. */
const char *tune_default_file(void);

#endif
