/* Words "key=value" by a table of keys (words.h). */
#include "words.h"

#include "core/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Adds to a sentence what fits. */
__attribute__((format(printf, 2, 3))) static void say(char error[CLI_WORDS_ERROR], const char *format, ...) {
    const size_t used = strlen(error);
    va_list values;
    va_start(values, format);
    vsnprintf(error + used, CLI_WORDS_ERROR - used, format, values);
    va_end(values);
}

static int read_number(const cli_key *key, const char *text, char error[CLI_WORDS_ERROR]) {
    int64_t number;
    if (fv_word_number(text, &number) && number >= key->least && number <= key->most) {
        *key->value = number;
        return 0;
    }
    say(error, "%s=%s: must be a whole number", key->name, text);
    if (key->least != INT64_MIN)
        say(error, " from %" PRId64 " to %" PRId64, key->least, key->most);
    return -1;
}

static int read_choice(const cli_key *key, const char *text, char error[CLI_WORDS_ERROR]) {
    for (int i = 0; key->choices[i]; i++)
        if (strcmp(key->choices[i], text) == 0) {
            *key->value = i;
            return 0;
        }
    say(error, "%s=%s: must be one of", key->name, text);
    for (int i = 0; key->choices[i]; i++)
        say(error, " %s", key->choices[i]);
    return -1;
}

/* The index of a word's key among keys, of which those in given had a word before. */
static int find_key(const cli_key *keys, const char *name, uint64_t given, char error[CLI_WORDS_ERROR]) {
    int i = 0;
    while (keys[i].name && strcmp(keys[i].name, name) != 0)
        i++;
    if (keys[i].name && !(given >> i & 1))
        return i;
    if (keys[i].name) {
        say(error, "%s is given twice", name);
        return -1;
    }
    say(error, "unknown key \"%s\"; known are", name);
    for (i = 0; keys[i].name; i++)
        say(error, " %s", keys[i].name);
    return -1;
}

int cli_read_words(const char *text, const cli_key *keys, char error[CLI_WORDS_ERROR]) {
    uint64_t given = 0; /* as bits */
    fv_word word;
    fv_word_found found;
    int count = 0;
    error[0] = '\0';
    for (; (found = fv_word_next(&text, CLI_BLANKS, &word)) == FV_WORD_FOUND; count++) {
        const int i = find_key(keys, word.name, given, error);
        if (i < 0 || (keys[i].choices ? read_choice : read_number)(&keys[i], word.value, error) != 0)
            return -1;
        given |= UINT64_C(1) << i;
    }
    if (found == FV_WORD_NONE)
        return count;
    say(error, "\"%.*s\" is not of the form key=value", (int)strcspn(text, CLI_BLANKS), text);
    return -1;
}
