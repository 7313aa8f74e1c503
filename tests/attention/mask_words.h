/* A boolean mask said as another kind, for the same problem. */
#ifndef FOVEA_TESTS_MASK_WORDS_H
#define FOVEA_TESTS_MASK_WORDS_H

#include "fovea/fovea.h"

#include <stdbool.h>

typedef struct mask_words {
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_mask *prepared;
    void *memory[2];
} mask_words;

/* Can a boolean mask be said so? KEY_PADDING: only where it repeats along heads and queries. */
bool mask_words_can(const fovea_attention_args *args, fovea_mask_kind kind);

/* As that kind; PREPARED: of inner, which is any other. Blocks are block_rows x block_keys, if the mask is made of
 * such; 1 x 1 always serves. What the mask says past the lengths is kept, too. The library reads memory of exactly the
 * size that its header names. Ends the program if it fails. */
void mask_words_make(mask_words *words, const fovea_context *ctx, const fovea_attention_desc *desc,
                     const fovea_attention_args *args, fovea_mask_kind kind, fovea_mask_kind inner,
                     const int64_t block[2]);
void mask_words_free(mask_words *words);

/* The element of a boolean mask. */
bool mask_attends(const fovea_tensor *mask, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
