/* Words "name=value" of a line of text. */
#ifndef FV_WORDS_H
#define FV_WORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fv_word {
    char name[32], value[256];
} fv_word;

typedef enum fv_word_found { FV_WORD_NONE, FV_WORD_FOUND, FV_WORD_WRONG } fv_word_found;

/* Takes the next word from *at, past any of the separators. FV_WORD_NONE at the end of the text. FV_WORD_WRONG: what
 * comes is no such word, or longer than fv_word holds; *at is where it begins. */
fv_word_found fv_word_next(const char **at, const char *separators, fv_word *word);

/* The whole of a text as a number of up to 18 digits, without needless characters. */
bool fv_word_number(const char *text, int64_t *number);

#endif
