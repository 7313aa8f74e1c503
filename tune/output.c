/* Where what fovea-tune makes goes. */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int standard_output = -1; /* while "-" is written there: 1 is what 2 is */

bool tune_is_standard_output(const char *path) { return strcmp(path, "-") == 0; }

bool tune_output_begin(const char *path) {
    if (!tune_is_standard_output(path))
        return true;
    fflush(stdout);
    standard_output = dup(STDOUT_FILENO);
    return standard_output >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
}

fovea_status tune_output_write(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]) {
    if (!tune_is_standard_output(path))
        return fv_file_replace(path, text, length, error);
    while (length > 0) {
        const ssize_t n = write(standard_output, text, length);
        if (n < 0 && errno != EINTR) {
            snprintf(error, FV_FILE_ERROR, "standard output: %s", strerror(errno));
            return FOVEA_ERROR_FILE;
        }
        text += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return FOVEA_OK;
}

void tune_output_json(bool print, json_t *all) {
    if (print) {
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(all);
}

fovea_status tune_output_tuning(const char *path, const fovea_tuning *tuning, char error[FV_FILE_ERROR]) {
    static char text[FV_TUNING_BYTES];
    size_t length;
    if (!tune_is_standard_output(path))
        return fv_tuning_write(tuning, path, error);
    const fovea_status status = fv_tuning_print(tuning, text, &length, error);
    return status == FOVEA_OK ? tune_output_write(path, text, length, error) : status;
}
