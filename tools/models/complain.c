/* complain.h. */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>

int complain(complaint to, const char *subject, const char *format, ...) {
    const int length = snprintf(to.text, to.size, "%s: ", subject);
    if (length >= 0 && (size_t)length < to.size) {
        va_list values;
        va_start(values, format);
        vsnprintf(to.text + length, to.size - (size_t)length, format, values);
        va_end(values);
    }
    return -1;
}
