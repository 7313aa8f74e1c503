/* Makes GGUF files in memory, for tests: a sound one, which they break. */
#ifndef GENERATE_MAKE_GGUF_H
#define GENERATE_MAKE_GGUF_H

#include "gguf.h"

#include <string.h>

enum { MADE_MOST = 1 << 14 };

typedef struct made_gguf {
    uint8_t bytes[MADE_MOST];
    size_t size;
} made_gguf;

static inline void made_bits(made_gguf *g, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        g->bytes[g->size++] = (uint8_t)(value >> 8 * i);
}

static inline void made_text(made_gguf *g, const char *text) {
    made_bits(g, strlen(text), 8);
    memcpy(g->bytes + g->size, text, strlen(text));
    g->size += strlen(text);
}

static inline void made_u32(made_gguf *g, const char *key, uint32_t value) {
    made_text(g, key);
    made_bits(g, GGUF_U32, 4);
    made_bits(g, value, 4);
}

static inline void made_word(made_gguf *g, const char *key, const char *value) {
    made_text(g, key);
    made_bits(g, GGUF_TEXT, 4);
    made_text(g, value);
}

static inline void made_array(made_gguf *g, const char *key, gguf_kind element, uint64_t count) {
    made_text(g, key);
    made_bits(g, GGUF_ARRAY, 4);
    made_bits(g, element, 4);
    made_bits(g, count, 8);
}

static inline void made_tensor(made_gguf *g, const char *name, uint64_t columns, gguf_type type, uint64_t place) {
    made_text(g, name);
    made_bits(g, 1, 4);
    made_bits(g, columns, 8);
    made_bits(g, type, 4);
    made_bits(g, place, 8);
}

enum { MADE_TENSORS = 6, MADE_VALUES = 7 };

/* Arrays of all types, 64 elements each, 256 bytes apart, and the tokenizer of a few words. */
static inline void made_good(made_gguf *g) {
    static const gguf_type types[MADE_TENSORS] = {GGUF_F32S, GGUF_F16S, GGUF_BF16S, GGUF_Q4_0, GGUF_Q4_1, GGUF_Q8_0};
    static const char *const names[MADE_TENSORS] = {"f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"};
    static const char *const tokens[] = {"a",
                                         "b",
                                         "1",
                                         "2",
                                         "\xc4\xa0",
                                         "ab",
                                         ("\xc4\xa0"
                                          "a"),
                                         "<|im_start|>",
                                         "12"};
    g->size = 0;
    memcpy(g->bytes, "GGUF", 4);
    g->size = 4;
    made_bits(g, 3, 4);
    made_bits(g, MADE_TENSORS, 8);
    made_bits(g, MADE_VALUES, 8);
    made_word(g, "general.architecture", "llama");
    made_u32(g, "general.alignment", 64);
    made_word(g, "tokenizer.ggml.model", "gpt2");
    made_word(g, "tokenizer.ggml.pre", "smollm");
    made_array(g, "tokenizer.ggml.tokens", GGUF_TEXT, 9);
    for (int i = 0; i < 9; i++)
        made_text(g, tokens[i]);
    made_array(g, "tokenizer.ggml.token_type", GGUF_I32, 9);
    for (int i = 0; i < 9; i++)
        made_bits(g, i == 7 ? 3 : 1, 4);
    made_array(g, "tokenizer.ggml.merges", GGUF_TEXT, 3);
    made_text(g, "1 2"); /* digits come alone by SmolLM's rule, whatever merges say */
    made_text(g, "a b");
    made_text(g, "\xc4\xa0 a");
    for (int i = 0; i < MADE_TENSORS; i++)
        made_tensor(g, names[i], 64, types[i], 256 * (uint64_t)i);
    while (g->size % 64 != 0)
        made_bits(g, 0, 1);
    for (int i = 0; i < 256 * MADE_TENSORS; i++) {
        const int block = i / 256 < 3 ? 0 : i / 256 == 3 ? 18 : i / 256 == 4 ? 20 : 34, scales = block == 20 ? 4 : 2;
        const bool integer = block > 0 && i % 256 % block >= scales; /* else no number is infinite, nor below 0 */
        made_bits(g, (uint64_t)(i * 37 % 251 & (integer ? 0xff : 0x3f)), 1);
    }
}

#endif
