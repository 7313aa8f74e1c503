/* Texts that are hard for tokenizers, of all planes of Unicode and of none: test and llama.cpp (make_reference.py) read
 * the same ones. */
#ifndef TOKENIZERS_HOSTILE_H
#define TOKENIZERS_HOSTILE_H

#include <stddef.h>

enum { HOSTILE_TEXTS = 5000, HOSTILE_LONG = 100000, HOSTILE_MOST = HOSTILE_LONG + 4096 };

/* Text i, from 0 on, into to, which has room for HOSTILE_MOST bytes; how many. The same on every machine. */
size_t hostile_text(int i, char *to);

#endif
