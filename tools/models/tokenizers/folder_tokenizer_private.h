/* Parts of a tokenizer.json, for folder_tokenizer.c. */
#ifndef TOKENIZERS_FOLDER_TOKENIZER_PRIVATE_H
#define TOKENIZERS_FOLDER_TOKENIZER_PRIVATE_H

#include "tokenizers.h"

#include <jansson.h>
#include <string.h>

static inline const char *folder_type(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL ? type : "(none)";
}

static inline bool folder_is_type(const json_t *object, const char *type) {
    return strcmp(folder_type(object), type) == 0;
}

/* folder_tokenizer_unigram.c: Unigram's normalizers, words and pieces, which are owned by root, of the file at path. */
typedef struct folder_unigram {
    tk_unigram_rules rules;
    double *scores;
    uint8_t *charsmap;
    const json_t *vocab;
    size_t at; /* of the list of pieces */
} folder_unigram;

int folder_unigram_read(folder_unigram *u, const json_t *root, const char *path, complaint to);
tk_list folder_unigram_pieces(folder_unigram *u);
void folder_unigram_free(folder_unigram *u); /* also after an error */

#endif
