/* The tokenizer of a model (tokenizers.h) from the files of its folder: vocab.txt, the WordPiece, Unigram or byte-level
 * BPE of a tokenizer.json, or vocab.json with merges.txt.
 *
 *     tk_tokenizer *t;
 *     if (folder_tokenizer("folder", FOLDER_BOTH, &t, complaint) != 0) ...
 *
 * What a model asks for beyond these is refused in one sentence. */
#ifndef TOKENIZERS_FOLDER_TOKENIZER_H
#define TOKENIZERS_FOLDER_TOKENIZER_H

#include "tokenizers.h"

/* Tokens about a text; WordPiece has [CLS] and [SEP] in any case. */
typedef enum folder_frame {
    FOLDER_NONE,  /* GPT-2 */
    FOLDER_FIRST, /* </s> before it: OPT */
    FOLDER_BOTH   /* <s> and </s>: RoBERTa, and MPNet about BERT's pieces */
} folder_frame;

int folder_tokenizer(const char *folder, folder_frame frame, tk_tokenizer **t, complaint to);

#endif
