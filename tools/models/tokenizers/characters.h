/* Characters as Unicode has them, by utf8proc: what tokenizers of word pieces and Unigram ask for (tokenizers.h). */
#ifndef TOKENIZERS_CHARACTERS_H
#define TOKENIZERS_CHARACTERS_H

#include "tokenizers.h"

/* As PyPI's tokenizers has them. */
extern const tk_characters tk_characters_utf8proc;

#endif
