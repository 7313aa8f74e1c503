/* Sentences for what is wrong with a file: how readers report. */
#ifndef MODELS_COMPLAIN_H
#define MODELS_COMPLAIN_H

#include <stddef.h>

/* Where a sentence goes: text[size], always terminated. */
typedef struct complaint {
    char *text;
    size_t size;
} complaint;

/* Writes "SUBJECT: SENTENCE"; returns -1, so that a function can end with it. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
int complain(complaint to, const char *subject, const char *format, ...);

#endif
