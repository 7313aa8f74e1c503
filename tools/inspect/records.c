/* records.h. */
#include "records.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

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

void record_json_text(FILE *to, const char *text) {
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
    fputc('"', to);
    while (left > 0) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t bytes = utf8proc_iterate(at, left, &c);
        if (bytes < 1)
            fputs("\\ufffd", to);
        else if (c == '"' || c == '\\')
            fprintf(to, "\\%c", (int)c);
        else if (c < ' ')
            fprintf(to, "\\u%04x", (unsigned)c);
        else
            fwrite(at, 1, (size_t)bytes, to);
        at += bytes < 1 ? 1 : bytes;
        left -= bytes < 1 ? 1 : bytes;
    }
    fputc('"', to);
}

void record_json_number(FILE *to, double number) {
    if (isfinite(number))
        fprintf(to, "%.9g", number);
    else
        fputs("null", to);
}
