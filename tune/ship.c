/* merge --ship: rows as the file of known CPUs has them, and that file. */
#include "commands.h"
#include "output.h"
#include "plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* For any number of threads, unless it decides how work is split among them. */
static bool fits_any_threads(const fv_tuning_row *row) {
    const fv_tuning_operation *operation = fv_tuning_operations[row->operation];
    for (int i = 0; i < operation->knobs; i++)
        if (row->knob[i].number && strncmp(operation->knob[i].name, "split", 5) == 0)
            return false;
    return true;
}

static void without_threads(fv_tuning_row *row) {
    char *word = row->known ? NULL : strstr(row->text, " threads="), *end = word ? strchr(word + 1, ' ') : NULL;
    if (row->known && fits_any_threads(row))
        row->threads = 0;
    if (end)
        memmove(word, end, strlen(end) + 1);
}

fovea_tuning *tune_ship(const fovea_tuning *from, char error[FV_FILE_ERROR]) {
    fovea_tuning *to;
    fovea_status status = fv_tuning_create(&to, error);
    int left_out = 0;
    for (int i = 0; i < from->rows && status == FOVEA_OK; i++) {
        fv_tuning_row row = from->row[i];
        fv_tuning_section section = from->section[row.section];
        if (!fv_tuning_is_model(&section)) {
            if (!fv_tuning_section_known(&section)) {
                left_out++;
                continue;
            }
            without_threads(&row);
            fv_tuning_model_of(&from->section[row.section], &section);
        }
        status = fv_tuning_put(to, &section, &row, error);
    }
    if (left_out > 0)
        fprintf(stderr, "fovea-tune: %d row%s of other builds left out: only their own build knows what they name\n",
                left_out, plural(left_out));
    if (status == FOVEA_OK)
        return to;
    fovea_tuning_destroy(to);
    return NULL;
}

fovea_status tune_ship_write(const char *path, const fovea_tuning *tuning, char error[FV_FILE_ERROR]) {
    static char old[FV_TUNING_BYTES + 1], rows[FV_TUNING_BYTES], text[FV_TUNING_BYTES];
    size_t length = 0, n = 0;
    bool absent;
    fovea_status status = fv_file_read(path, old, FV_TUNING_BYTES, &length, &absent, error);
    if (status == FOVEA_OK || absent)
        status = fv_tuning_print(tuning, rows, &n, error);
    if (status != FOVEA_OK)
        return status;
    old[length] = '\0';
    const char *body = strchr(rows, '\n') + 1, *at = strchr(old, '\n'), *comments = at ? at + 1 : old;
    for (at = comments; *at == '#'; at += strcspn(at, "\n") + 1)
        ;
    n = 0;
    fv_text_add(text, sizeof text, &n, "%.*s%.*s%s", (int)(body - rows), rows, (int)(at - comments), comments, body);
    if (n >= sizeof text) {
        snprintf(error, FV_FILE_ERROR, "%.200s would be larger than the %d bytes of a tuning file", path,
                 FV_TUNING_BYTES);
        return FOVEA_ERROR_TUNING;
    }
    const size_t summed = (size_t)(strstr(text, "\nend sum=") + 1 - text);
    n = summed;
    fv_text_add(text, sizeof text, &n, "end sum=%016" PRIx64 "\n", fv_hash(FV_HASH_BEGIN, text, summed));
    return tune_output_write(path, text, n, error);
}
