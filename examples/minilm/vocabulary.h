/* The pieces of a tokenizer: texts with ids from 0, found by either. */
#ifndef MINILM_VOCABULARY_H
#define MINILM_VOCABULARY_H

#include "complain.h"

#include <jansson.h>
#include <stdint.h>

enum { VOCABULARY_NONE = -1 };

/* Immutable: any number of threads may use one. */
typedef struct vocabulary vocabulary;

/* A file with a piece per line, whose id is the line's number from 0 (vocab.txt), or a JSON object {piece: id}, of which
 * path is the file. No piece may be empty or come twice, and no id. 0; or -1 after a complaint, and *v is NULL. */
int vocabulary_load(const char *path, vocabulary **v, complaint to);
int vocabulary_from_json(const char *path, const json_t *pieces, vocabulary **v, complaint to);
void vocabulary_free(vocabulary *v); /* NULL is allowed */

/* The largest id, and one. */
int64_t vocabulary_count(const vocabulary *v);

/* Owned by the vocabulary; NULL for an id that it has not. */
const char *vocabulary_text(const vocabulary *v, int32_t id);

/* The id of the piece prefix + bytes[count], or VOCABULARY_NONE. bytes hold no zero. */
int32_t vocabulary_find(const vocabulary *v, const char *prefix, const char *bytes, size_t count);

#endif
