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

/* Says a comment that a CPU has no rows which now has some? */
static bool outdated(const char *comment, const fovea_tuning *tuning) {
    static const char skipped[] = "# SKIPPED ";
    char model[128];
    const size_t before = sizeof skipped - 1;
    if (strncmp(comment, skipped, before) != 0)
        return false;
    snprintf(model, sizeof model, "cpu %.*s ", (int)strcspn(comment + before, "(\n") - 1, comment + before);
    for (int i = 0; i < tuning->sections; i++)
        if (strncmp(tuning->section[i].text, model, strlen(model)) == 0)
            return true;
    return false;
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
    const int title = (int)strcspn(rows, "\n") + 1, body = (int)(strstr(rows, "\nend sum=") + 1 - rows) - title;
    n = 0;
    fv_text_add(text, sizeof text, &n, "%.*s", title, rows);
    for (const char *line = strchr(old, '\n'); line && line[1] == '#'; line = strchr(line + 1, '\n'))
        if (!outdated(line + 1, tuning))
            fv_text_add(text, sizeof text, &n, "%.*s", (int)strcspn(line + 1, "\n") + 1, line + 1);
    fv_text_add(text, sizeof text, &n, "%.*s", body, rows + title);
    const uint64_t sum = n < sizeof text ? fv_hash(FV_HASH_BEGIN, text, n) : 0;
    fv_text_add(text, sizeof text, &n, "end sum=%016" PRIx64 "\n", sum);
    if (n < sizeof text)
        return tune_output_write(path, text, n, error);
    snprintf(error, FV_FILE_ERROR, "%.200s would be larger than the %d bytes of a tuning file", path, FV_TUNING_BYTES);
    return FOVEA_ERROR_TUNING;
}
