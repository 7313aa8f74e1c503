/* The Unigram of a tokenizer.json (tokenizer.h): normalizers, and words with U+2581 before them. */
#ifndef MINILM_TOKENIZER_UNIGRAM_H
#define MINILM_TOKENIZER_UNIGRAM_H

#include "complain.h"

#include <jansson.h>
#include <stdint.h>

typedef struct tokenizer_unigram tokenizer_unigram;

/* root: the file at path. 0, or -1 after a complaint. */
int tokenizer_unigram_open(const json_t *root, const char *path, tokenizer_unigram **t, complaint to);
void tokenizer_unigram_close(tokenizer_unigram *t); /* NULL is allowed */

/* Ids without a frame, at most most. Returns how many; -1: out of memory. */
int64_t tokenizer_unigram_tokens(const tokenizer_unigram *t, const char *text, size_t bytes, int32_t *ids,
                                 int64_t most);

int32_t tokenizer_unigram_find(const tokenizer_unigram *t, const char *piece); /* -1: none */
const char *tokenizer_unigram_text(const tokenizer_unigram *t, int32_t id);    /* NULL: none */

#endif
