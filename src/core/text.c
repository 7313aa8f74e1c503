/* Text in a caller's buffer (text.h). */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>

void fv_text_add(char *text, size_t size, size_t *length, const char *format, ...) {
    const size_t at = *length < size ? *length : size;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(at < size ? text + at : NULL, size - at, format, arguments);
    va_end(arguments);
    *length += n > 0 ? (size_t)n : 0;
}
