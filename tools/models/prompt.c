/* prompt.h. */
#include "prompt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

char *prompt_read(FILE *from, size_t most, size_t *count, complaint to) {
    size_t room = 0;
    char *bytes = NULL;
    *count = 0;
    for (;;) {
        if (*count == room) {
            char *more = realloc(bytes, room = room > 0 ? 2 * room : 4096);
            if (more == NULL) {
                free(bytes);
                complain(to, "standard input", "out of memory");
                return NULL;
            }
            bytes = more;
        }
        const size_t read = fread(bytes + *count, 1, room - *count, from);
        *count += read;
        if (ferror(from) || *count > most) {
            if (ferror(from))
                complain(to, "standard input", "cannot be read: %s", strerror(errno));
            else
                complain(to, "standard input", "is longer than %zu bytes", most);
            free(bytes);
            return NULL;
        }
        if (read == 0)
            break;
    }
    *count -= *count > 0 && bytes[*count - 1] == '\n';
    *count -= *count > 0 && bytes[*count - 1] == '\r';
    return bytes;
}

char *prompt_utf8(const char *bytes, size_t count, int64_t *replaced) {
    static const char replacement[] = "\xef\xbf\xbd";
    char *text = malloc(3 * count + 1), *to = text;
    *replaced = 0;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < count;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *)bytes + i, (utf8proc_ssize_t)(count - i), &c);
        const bool sound = length > 0 && c > 0;
        memcpy(to, sound ? bytes + i : replacement, sound ? (size_t)length : sizeof replacement - 1);
        to += sound ? (size_t)length : sizeof replacement - 1;
        i += sound ? (size_t)length : 1;
        *replaced += !sound;
    }
    *to = '\0';
    return text;
}
