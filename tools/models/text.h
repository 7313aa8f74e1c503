/* Text and tokens of a decoder: a tokenizer (tokenizers.h) from a GGUF file, or from the folder of safetensors files.
 *
 *     text_codec *t;
 *     if (text_from_gguf(file, &t, complaint) != 0) ...
 *     int64_t count = text_chat(t, NULL, "Who are you?", ids, most);     the model's chat, up to its answer
 *     tk_decoder d = tk_decoder_begin(text_tokenizer(t), false);         from tokens back to text
 *
 * Special tokens in a text are text: only text_chat() puts them in. */
#ifndef MODELS_TEXT_H
#define MODELS_TEXT_H

#include "chat.h"
#include "gguf.h"

/* Immutable: any number of threads may use one. */
typedef struct text_codec text_codec;

int text_from_gguf(const gguf *file, text_codec **t, complaint to);
int text_from_folder(const char *folder, text_codec **t,
                     complaint to); /* tokenizer.json, or vocab.json and merges.txt */
void text_free(text_codec *t);      /* NULL is allowed */

/* Owned by the codec. */
const tk_tokenizer *text_tokenizer(const text_codec *t);

/* Ids of a text, at most most; -1: there are more, or no memory. */
int64_t text_tokens(const text_codec *t, const char *bytes, size_t count, int32_t *ids, int64_t most);

/* The token that the model wants before each text; -1: none. */
int32_t text_first(const text_codec *t);

/* The chat that the model's template computes; CHAT_NONE: it has none. */
const chat_form *text_chats(const text_codec *t);

/* A chat of it (chat_tokens()). */
int64_t text_chat(const text_codec *t, const char *system, const char *user, int32_t *ids, int64_t most);

/* Does a token end an answer? One that the model's files name, or whose name says so, as <|im_end|>. */
bool text_ends(const text_codec *t, int32_t id);

#endif
