/* records.h. */
#include "records.h"

#include "prompt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void record_csv_text(FILE *to, const char *text) {
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

json_t *record_text(const char *text) {
    int64_t replaced;
    char *sound = prompt_utf8(text, strlen(text), &replaced);
    json_t *value = sound != NULL ? json_string(sound) : NULL;
    free(sound);
    return value;
}

json_t *record_number(double number) { return isfinite(number) ? json_real(number) : json_null(); }

static json_t *complete(json_t *whole, int status) {
    if (status != 0)
        json_decref(whole);
    return status == 0 ? whole : NULL;
}

json_t *record_add(json_t *object, const char *name, json_t *value) {
    return complete(object, json_object_set_new(object, name, value));
}

json_t *record_append(json_t *array, json_t *value) { return complete(array, json_array_append_new(array, value)); }

int record_write(json_t *value, FILE *to) {
    const int status = value != NULL ? json_dumpf(value, to, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : -1;
    json_decref(value);
    return status;
}
