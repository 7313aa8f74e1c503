/* Text in a caller's buffer, piece by piece. */
#ifndef FV_TEXT_H
#define FV_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The parameter of a function that is a format, and the first one of its values. */
#ifdef _WIN32 /* where printf is another format, which the library does not use */
#define FV_PRINTF(format, value) __attribute__((__format__(gnu_printf, format, value)))
#else
#define FV_PRINTF(format, value) __attribute__((__format__(printf, format, value)))
#endif

/* Adds a piece behind the first *length bytes of a text in text[size], as snprintf would: what does not fit is cut, the
 * text is terminated if size > 0, and *length grows by the whole piece, so that in the end it tells how much room all
 * of it takes. */
FV_PRINTF(4, 5)
void fv_text_add(char *text, size_t size, size_t *length, const char *format, ...);

/* Is a word among words with commas between, as cpu is among "cpuacct,cpu"? */
bool fv_text_lists(const char *words, const char *word);

#endif
