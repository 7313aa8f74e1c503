/* A text that a test makes, and compares with what a file has from an earlier run. */
#ifndef FOVEA_TESTS_RECORD_H
#define FOVEA_TESTS_RECORD_H

#include "test.h"

#include <stddef.h>

/* Adds to the text. */
void say(const char *format, ...) TEST_PRINTF(1, 2);

/* Several lines as one, up to a word that begins one of them; NULL: all. */
void say_lines(const char *text, const char *until);

/* A text without a file's name, and without the words that another build changes. */
void say_cleaned(const char *file, const char *what, const char *text);

/* How long the text is; takes back what was added since then, and returns the hash of that. */
size_t record_length(void);
uint64_t record_cut(size_t from);

/* Compares the text with the file, or writes it. */
void record_end(const char *path, bool write);

#endif
