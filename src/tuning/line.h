/* Lines of tuning files (the form: text.c), read and written one at a time. */
#ifndef FV_TUNING_LINE_H
#define FV_TUNING_LINE_H

#include "tuning/rows.h"

/* The place in a line up to which it was understood; the first thing wrong stays in status and *error. */
typedef struct fv_tuning_reader {
    const char *at;
    int line, version; /* version: of the file */
    fovea_status status;
    bool unknown; /* wrong is a name that this build does not have */
    char *error;  /* [FV_FILE_ERROR] */
} fv_tuning_reader;

/* Notes what is wrong, if it is the first; returns false. */
FV_PRINTF(3, 4)
bool fv_tuning_refuse(fv_tuning_reader *r, fovea_status status, const char *format, ...);
#define fv_tuning_wrong(r, ...) fv_tuning_refuse(r, FOVEA_ERROR_TUNING, __VA_ARGS__)

/* Is it a row of an adapter: has its first word a dot? */
bool fv_tuning_is_adapter(const char *text);

/* A line's whole: a row for this build, and for the machine of its section (of a model: it need not name its threads);
 * a cpu line, and the machine in it, as far as this build knows its words. */
bool fv_tuning_take_row(fv_tuning_reader *r, fv_target machine, bool model, fv_tuning_row *row);
bool fv_tuning_take_section(fv_tuning_reader *r, fv_tuning_section *section, fv_target *machine);

void fv_tuning_print_row(const fv_tuning_row *row, char text[FV_TUNING_LINE]);

/* May two rows of one other build be asked for the same shape? By what their text tells: operation and keys. */
bool fv_tuning_overlap_text(const char *a, const char *b);

#endif
