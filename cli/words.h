/* Words "key=value", as the shapes of fovea-tune and the cases of fovea-bench are written, read by a table of keys:
 *
 *     int64_t rows = 1, form = 0;
 *     const cli_key keys[] = {
 *         {"rows", NULL, 1, 4096, &rows}, {"form", form_words, 0, 0, &form}, {NULL, NULL, 0, 0, NULL}};
 *     if (cli_read_words("rows=8 form=merged", keys, error) < 0)
 *         fail(error);
 *
 * Words are split and numbers read as in tuning files (core/words.h), whose lines have further rules (tuning/line.c):
 * an order, one space, ranges. The library cannot use this, which is above it.
 */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <stdint.h>

enum { CLI_WORDS_ERROR = 256 };

/* Characters between words. */
#define CLI_BLANKS " ,\t\r\n"

/* A key's value is a number of a range, or one of some words. */
typedef struct cli_key {
    const char *name;
    const char *const *choices; /* ended by NULL; NULL itself: a number */
    int64_t least, most;
    int64_t *value; /* receives the number, or the index of the choice; holds the default before */
} cli_key;

/* Reads every word by the table of keys, ended by a NULL name; how many words there are, or -1 and a sentence. */
int cli_read_words(const char *text, const cli_key *keys, char error[CLI_WORDS_ERROR]);

#endif
