/* Text in a caller's buffer (text.h). */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void fv_text_add(char *text, size_t size, size_t *length, const char *format, ...) {
    const size_t at = *length < size ? *length : size;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(at < size ? text + at : NULL, size - at, format, arguments);
    va_end(arguments);
    *length += n > 0 ? (size_t)n : 0;
}

bool fv_text_lists(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}
