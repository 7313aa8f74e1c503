/* WordPiece tokens of a text, as BERT's models take them.
 *
 *     wordpiece *pieces;
 *     if (wordpiece_load("vocab.txt", &pieces, complaint) != 0) ...
 *     int32_t ids[256];
 *     int64_t count = wordpiece_tokens(pieces, text, strlen(text), ids, 256);
 *
 * The rules are those of the reference implementations: control characters are left out; white space, punctuation and
 * each Chinese character end a word; words are taken without accents and in lower case (cased models: as they are; see
 * wordpiece_rules), and cut greedily into the
 * longest pieces that the vocabulary has, "##" before all but a word's first; a word that cannot be cut so, or of more
 * than 100 characters, is [UNK]. Unlike there, "[SEP]" in a text is text, never a token of its own. */
#ifndef MINILM_WORDPIECE_H
#define MINILM_WORDPIECE_H

#include "vocabulary.h"

#include <stdbool.h>

/* A vocabulary: immutable, any number of threads may use one. */
typedef struct wordpiece wordpiece;

/* Reads vocab.txt: UTF-8, a piece per line, whose id is the line's number from 0. No piece may be empty or come twice,
 * and [CLS], [SEP] and [UNK] must be there. Returns 0; or -1, a complaint, and *pieces is NULL. */
int wordpiece_load(const char *path, wordpiece **pieces, complaint to);

/* What a model does otherwise; all false: as uncased BERT. */
typedef struct wordpiece_rules {
    bool keep_case, keep_accents;
    bool join_chinese;     /* a Chinese character is a letter like others */
    const char *cls, *sep; /* the frame; NULL: [CLS] and [SEP] */
} wordpiece_rules;

/* The same of a vocabulary, which it frees in any case; path is for complaints. */
int wordpiece_create(vocabulary *v, wordpiece_rules rules, const char *path, wordpiece **pieces, complaint to);
void wordpiece_free(wordpiece *pieces); /* NULL is allowed */

/* Number of pieces. */
int64_t wordpiece_count(const wordpiece *pieces);

/* The piece of an id, as "[CLS]" or "##ing"; owned by the vocabulary. NULL for other numbers. */
const char *wordpiece_text(const wordpiece *pieces, int32_t id);

/* Ids of the pieces of a text of UTF-8 (what is none is left out), between [CLS] and [SEP], at most most >= 2 in all:
 * what is longer is cut off. Returns how many. */
int64_t wordpiece_tokens(const wordpiece *pieces, const char *text, size_t bytes, int32_t *ids, int64_t most);

#endif
