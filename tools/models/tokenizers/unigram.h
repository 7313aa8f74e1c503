/* Unigram tokenizers, as XLM-R has: the pieces of a word whose scores have the largest sum.
 *
 *     tk_unigram *u;
 *     if (tk_unigram_create(&description, &u, complaint) != 0) ...
 *     char *plain = tk_unigram_normalize(u, text, bytes, breaks, &count);        freed by free()
 *     int64_t tokens = tk_unigram_word(u, word, count, ids, most);               of each word of it
 *
 * Ids and normalized texts are those of PyPI's tokenizers, of which the table of characters (SentencePiece's
 * precompiled_charsmap) is read as tokenizers reads it: whole graphemes of less than 6 bytes first, then characters.
 * Vocabularies and tables are untrusted. Any number of threads may use one. */
#ifndef TOKENIZERS_UNIGRAM_H
#define TOKENIZERS_UNIGRAM_H

#include "tokenizers.h"

#include <stddef.h>

typedef struct tk_unigram_description {
    const char *name;        /* of the file, for complaints */
    tk_list tokens;          /* their ids are 0, 1, ... */
    const double *scores;    /* [tokens.count], finite */
    int32_t unknown;         /* the id of what no piece is found for */
    const uint8_t *charsmap; /* or NULL: characters stay as they are */
    size_t charsmap_bytes;
} tk_unigram_description;

typedef struct tk_unigram tk_unigram;

int tk_unigram_create(const tk_unigram_description *description, tk_unigram **u, complaint to);
void tk_unigram_free(tk_unigram *u); /* NULL is allowed */

/* Does a grapheme end between two characters? *state is 0 before a text. */
typedef bool tk_grapheme_break(uint32_t before, uint32_t behind, int32_t *state);

/* The text with characters exchanged, bytes that are no UTF-8 left out, and a zero behind it. NULL: no memory. */
char *tk_unigram_normalize(const tk_unigram *u, const char *text, int64_t bytes, tk_grapheme_break *breaks,
                           int64_t *count);

/* Ids of a word of sound UTF-8, at most most; what is unknown in a row is one id. How many there are, which may be more
 * than most; TK_NO_MEMORY. */
int64_t tk_unigram_word(const tk_unigram *u, const char *word, int64_t bytes, int32_t *ids, int64_t most);

int32_t tk_unigram_find(const tk_unigram *u, const char *piece, int64_t bytes); /* or TK_NONE */
const char *tk_unigram_spelling(const tk_unigram *u, int32_t id);               /* NULL: no such id */

#endif
