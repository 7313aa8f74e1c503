/* Chats: which of those that are known here a template computes, and their tokens.
 *
 *     chat_form form;
 *     chat_read(tokenizer, template, bytes, &form);
 *     int64_t count = chat_tokens(tokenizer, &form, first, NULL, "Who are you?", ids, most);
 *     chat_free(&form);
 *
 * Templates are programs in Jinja. ChatML's are read (chatml.h); of Llama 3, Gemma, Qwen 2.5 to 3.5 and gpt-oss those
 * that their makers published are known. Special tokens in a message are text. */
#ifndef MODELS_CHAT_H
#define MODELS_CHAT_H

#include "tokenizers.h"

typedef enum chat_kind { CHAT_NONE, CHAT_CHATML, CHAT_LLAMA3, CHAT_GEMMA, CHAT_HARMONY, CHAT_OTHER } chat_kind;

typedef struct chat_form {
    chat_kind kind;
    bool dated;     /* Llama 3.1 and later: two dates come before the system message, */
    bool today;     /* of 3.2 that of today; else 26 Jul 2024 */
    bool no_system; /* Gemma 1 and 2 refuse system messages */
    bool thinks;    /* Qwen 3.5: messages are trimmed, and the answer begins with thoughts */
    char *system;   /* ChatML: the template's own system message, or NULL */
} chat_form;

/* CHAT_OTHER if the template is not known, or the tokenizer lacks its tokens. */
void chat_read(const tk_tokenizer *t, const char *template_bytes, size_t count, chat_form *form);
void chat_free(chat_form *form);

/* A system message (NULL: the template's own, if it has one), what the user says, and the begin of the answer.
 * first: the token before each text, or TK_NONE. -1: there are more than most, no memory, no such chat, or no system
 * messages. */
int64_t chat_tokens(const tk_tokenizer *t, const chat_form *form, int32_t first, const char *system, const char *user,
                    int32_t *ids, int64_t most);

/* Harmony, the chat of gpt-oss, answers in several messages (thoughts, then what is said), each behind a header. Which
 * of that is a token of the answer? In other chats all are text. *header: true before the first token. */
typedef enum chat_part { CHAT_TEXT, CHAT_HEADER, CHAT_MESSAGE } chat_part; /* MESSAGE: behind it, one begins */
chat_part chat_part_of(const tk_tokenizer *t, const chat_form *form, int32_t id, bool *header);

#endif
