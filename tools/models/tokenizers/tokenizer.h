/* The tokenizer of a model, from the files beside it: vocab.txt or the WordPiece of a tokenizer.json, the byte-level BPE
 * of a tokenizer.json, or vocab.json with merges.txt.
 *
 *     tokenizer *t;
 *     if (tokenizer_open("folder", TOKENIZER_BOTH, &t, complaint) != 0) ...
 *     int64_t count = tokenizer_tokens(t, text, bytes, ids, most);
 *
 * What a model asks for beyond these is refused in one sentence. */
#ifndef MINILM_TOKENIZER_H
#define MINILM_TOKENIZER_H

#include "complain.h"

#include <stdint.h>

/* Special tokens of BPE about a text; WordPiece has [CLS] and [SEP] in any case. */
typedef enum tokenizer_frame {
    TOKENIZER_NONE,  /* GPT-2 */
    TOKENIZER_FIRST, /* </s> before it: OPT */
    TOKENIZER_BOTH   /* <s> and </s>: RoBERTa */
} tokenizer_frame;

/* Immutable: any number of threads may use one. */
typedef struct tokenizer tokenizer;

int tokenizer_open(const char *folder, tokenizer_frame frame, tokenizer **t, complaint to);
void tokenizer_close(tokenizer *t); /* NULL is allowed */

/* Ids of a text of UTF-8, at most most >= 2 in all: what is longer is cut off. Returns how many; -1: out of memory. */
int64_t tokenizer_tokens(const tokenizer *t, const char *text, size_t bytes, int32_t *ids, int64_t most);

/* That of BPE (tokenizers.h), owned by this one; NULL for WordPiece. */
struct tk_tokenizer;
const struct tk_tokenizer *tokenizer_bpe(const tokenizer *t);

/* The piece of an id, owned by the tokenizer; NULL if it has none. */
const char *tokenizer_text(const tokenizer *t, int32_t id);

/* The ids of [CLS] and [SEP], or of what takes their place; -1: there is none. */
int32_t tokenizer_cls(const tokenizer *t);
int32_t tokenizer_sep(const tokenizer *t);

#endif
