/* Where a prompt comes from, and what becomes of bytes in it that are not UTF-8.
 *
 *     size_t count;
 *     int64_t replaced;
 *     char *text = prompt_read(stdin, 1 << 24, &count, complaint);
 *     char *sound = prompt_utf8(text, count, &replaced);             replaced > 0: tell the user */
#ifndef MODELS_PROMPT_H
#define MODELS_PROMPT_H

#include "complain.h"

#include <stdint.h>
#include <stdio.h>

/* All bytes of a stream but the line end at its end, to be freed; NULL after a complaint, as of more than most
 * bytes. */
char *prompt_read(FILE *from, size_t most, size_t *count, complaint to);

/* A copy in UTF-8 with a zero behind it, to be freed. Each byte that is no part of a character, or is zero, becomes
 * U+FFFD. NULL: no memory. */
char *prompt_utf8(const char *bytes, size_t count, int64_t *replaced);

#endif
