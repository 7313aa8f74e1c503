/* Tunings as text (the form: text.c). */
#ifndef FV_TUNING_TEXT_H
#define FV_TUNING_TEXT_H

#include "tuning/rows.h"

/* Reads all, or nothing: *tuning is NULL after an error, which names the line. */
fovea_status fv_tuning_parse(const char *text, size_t size, fovea_tuning **tuning, char error[FV_FILE_ERROR]);

/* Writes all into text[FV_TUNING_BYTES]; fails if there is too much. */
fovea_status fv_tuning_print(const fovea_tuning *tuning, char *text, size_t *length, char error[FV_FILE_ERROR]);

#endif
