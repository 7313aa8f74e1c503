/* The pieces of a tokenizer's file, in the order of their ids, for tokenizers.h. */
#ifndef MINILM_VOCABULARY_H
#define MINILM_VOCABULARY_H

#include "tokenizers.h"

#include <jansson.h>

typedef struct vocabulary vocabulary;

/* A file with a piece per line, whose id is the line's number from 0 (vocab.txt), or a JSON object {piece: id}, of which
 * path is the file. No piece may be empty, and no id come twice. 0; or -1 after a complaint, and *v is NULL. */
int vocabulary_load(const char *path, vocabulary **v, complaint to);
int vocabulary_from_json(const char *path, const json_t *pieces, vocabulary **v, complaint to);
void vocabulary_free(vocabulary *v); /* NULL is allowed */

/* All pieces, once; an id that the file has not is an empty one. */
tk_list vocabulary_list(vocabulary *v);

#endif
