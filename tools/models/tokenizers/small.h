/* Small vocabularies for tests, made of the merges in small.txt: those that PyPI's tokenizers learns from minilm's
 * alice.txt, then some of characters of several bytes. make_reference.py makes the same for llama.cpp.
 *
 *   names     smollm, gpt-2, qwen2, qwen35, llama-bpe: byte-level BPE; llama: SentencePiece
 *   tokens    BPE: the characters of bytes 0 to 255, the merges, the special tokens below
 *             llama: <unk>, <s>, </s>, <0x00> to <0xFF>, printable ASCII with U+2581 for the space, then what merges
 *             spell if it is UTF-8 and new, the special tokens below that are new
 *   special   of type 3 <|endoftext|> <|im_start|> <|im_end|> <s> </s>, of type 2 <unk>, of type 4 <tool> "\n\n\n"
 *             "\n\n" <ab>> b>>>
 *   scores    of the n-th token of "llama" -(n / 2): each two alike
 *   frame     BOS <s> and EOS </s>: smollm adds BOS, gpt-2 EOS, llama both, the others as by default */
#ifndef TOKENIZERS_SMALL_H
#define TOKENIZERS_SMALL_H

#include "tokenizers.h"

enum { SMALL_NAMES = 6 };
extern const char *const small_names[SMALL_NAMES];

/* 0, or -1 after a complaint. */
int small_create(const char *path, const char *name, tk_tokenizer **t, complaint to);

#endif
