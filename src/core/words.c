/* Words "name=value" (words.h). */
#include "core/words.h"

#include <string.h>

fv_word_found fv_word_next(const char **at, const char *separators, fv_word *word) {
    *at += strspn(*at, separators);
    const size_t length = strcspn(*at, separators), name = strcspn(*at, "="), value = length - name - 1;
    if (length == 0)
        return FV_WORD_NONE;
    if (name == 0 || name + 1 >= length || name >= sizeof word->name || value >= sizeof word->value)
        return FV_WORD_WRONG;
    memcpy(word->name, *at, name);
    word->name[name] = '\0';
    memcpy(word->value, *at + name + 1, value);
    word->value[value] = '\0';
    *at += length;
    return FV_WORD_FOUND;
}

bool fv_word_number(const char *text, int64_t *number) {
    const bool minus = text[0] == '-';
    const char *digits = text + minus;
    const size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 18 || digits[length] != '\0' || (digits[0] == '0' && (length > 1 || minus)))
        return false;
    *number = 0;
    for (size_t i = 0; i < length; i++)
        *number = *number * 10 + (digits[i] - '0');
    *number = minus ? -*number : *number;
    return true;
}
