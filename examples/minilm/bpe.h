/* Byte-level BPE tokens of a text, as GPT-2's and RoBERTa's models take them.
 *
 *     bpe *b;
 *     if (bpe_create(vocabulary, merges, path, &b, complaint) != 0) ...
 *     bpe_add_merge(b, "\xc4\xa0", 2, "t", 1, path, complaint);                 in the order of their ranks
 *     int64_t count = bpe_tokens(b, text, bytes, ids, most);
 *
 * A text is cut into words by GPT-2's rule: contractions, runs of letters, of digits, of other characters, each with the
 * space before it, and white space. The bytes of a word, each written as a character of its own ("Ġ" is a space), are
 * joined pair by pair, the pair of the lowest rank first. Special tokens in a text are text. */
#ifndef MINILM_BPE_H
#define MINILM_BPE_H

#include "vocabulary.h"

/* Immutable once all merges are there: any number of threads may use one. */
typedef struct bpe bpe;

/* merges: how many will be added. Frees v in any case; path is for complaints. */
int bpe_create(vocabulary *v, int64_t merges, const char *path, bpe **b, complaint to);
void bpe_free(bpe *b); /* NULL is allowed */

/* The next merge: both parts and what they become must be pieces. */
int bpe_add_merge(bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes, const char *path,
                  complaint to);

/* From now on each digit (what Unicode calls a number) is a word of its own, and the text between two of them a text: SmolLM. */
void bpe_cut_digits(bpe *b);

const vocabulary *bpe_pieces(const bpe *b);

/* Ids of a text, at most most; what is longer is cut off. Returns how many. Of a byte that is no piece nothing is left;
 * a word of more than 4096 bytes is cut there. */
int64_t bpe_tokens(const bpe *b, const char *text, size_t bytes, int32_t *ids, int64_t most);

/* Where the word that begins at a place ends. */
size_t bpe_word_end(const char *text, size_t bytes, size_t at);

#endif
