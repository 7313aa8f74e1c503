/* Makes GGUF files in memory, for tests: a sound one, which they break, and a tiny LLaMA, to which they add
 * settings. */
#ifndef MODELS_MAKE_GGUF_H
#define MODELS_MAKE_GGUF_H

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

/* The head of a file of some arrays and settings. */
static inline void made_begin(made_gguf *g, uint64_t arrays, uint64_t values) {
    memcpy(g->bytes, "GGUF", 4);
    g->size = 4;
    made_bits(g, 3, 4);
    made_bits(g, arrays, 8);
    made_bits(g, values, 8);
}

/* An array's entry. rows 0: a vector. */
static inline void made_tensor(made_gguf *g, const char *name, uint64_t columns, uint64_t rows, gguf_type type,
                               uint64_t place) {
    made_text(g, name);
    made_bits(g, rows > 0 ? 2 : 1, 4);
    made_bits(g, columns, 8);
    if (rows > 0)
        made_bits(g, rows, 8);
    made_bits(g, type, 4);
    made_bits(g, place, 8);
}

/* A setting of any kind; GGUF_ARRAY stands for an array of weights more. */
typedef struct made_setting {
    const char *key;
    gguf_kind kind;
    double number;
    const char *text;
} made_setting;

static inline void made_value(made_gguf *g, const made_setting *s) {
    const float single = (float)s->number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    made_text(g, s->key);
    made_bits(g, s->kind, 4);
    switch (s->kind) {
    case GGUF_TEXT: made_text(g, s->text); break;
    case GGUF_F32: made_bits(g, bits, 4); break;
    case GGUF_BOOL: made_bits(g, s->number != 0, 1); break;
    default: made_bits(g, (uint64_t)(int64_t)s->number, 4); break;
    }
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
    made_begin(g, MADE_TENSORS, MADE_VALUES);
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
        made_tensor(g, names[i], 64, 0, types[i], 256 * (uint64_t)i);
    while (g->size % 64 != 0)
        made_bits(g, 0, 1);
    for (int i = 0; i < 256 * MADE_TENSORS; i++) {
        const int block = i / 256 < 3 ? 0 : i / 256 == 3 ? 18 : i / 256 == 4 ? 20 : 34, scales = block == 20 ? 4 : 2;
        const bool integer = block > 0 && i % 256 % block >= scales; /* else no number is infinite, nor below 0 */
        made_bits(g, (uint64_t)(i * 37 % 251 & (integer ? 0xff : 0x3f)), 1);
    }
}

enum { MADE_WORDS = 12, MADE_WIDTH = 16, MADE_INNER = 24, MADE_KV = 8, MADE_ARRAYS = 11, MADE_SETTINGS = 11 };

/* A LLaMA of one layer with weights that look random. settings, ended by a key of NULL, are added, or take the place
 * of those of the same name. */
static inline void made_llama(made_gguf *g, const made_setting *settings) {
    static const made_setting own[MADE_SETTINGS] = {
        {"general.architecture", GGUF_TEXT, 0, "llama"},
        {"tokenizer.ggml.model", GGUF_TEXT, 0, "gpt2"},
        {"tokenizer.ggml.pre", GGUF_TEXT, 0, "smollm"},
        {"llama.block_count", GGUF_U32, 1, NULL},
        {"llama.embedding_length", GGUF_U32, MADE_WIDTH, NULL},
        {"llama.feed_forward_length", GGUF_U32, MADE_INNER, NULL},
        {"llama.context_length", GGUF_U32, 64, NULL},
        {"llama.attention.head_count", GGUF_U32, MADE_WIDTH / MADE_KV, NULL},
        {"llama.attention.head_count_kv", GGUF_U32, 1, NULL},
        {"llama.attention.layer_norm_rms_epsilon", GGUF_F32, 1e-5, NULL},
        {"llama.rope.freq_base", GGUF_F32, 10000, NULL}};
    static const char *const words[MADE_WORDS] = {
        "a", "b", "c", "\xc4\x8a", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "ab", "s", "t", "u"};
    static const struct {
        const char *name;
        uint64_t columns, rows; /* rows 0: a vector, of ones */
    } arrays[MADE_ARRAYS] = {
        {"token_embd.weight", MADE_WIDTH, MADE_WORDS},     {"output_norm.weight", MADE_WIDTH, 0},
        {"blk.0.attn_norm.weight", MADE_WIDTH, 0},         {"blk.0.ffn_norm.weight", MADE_WIDTH, 0},
        {"blk.0.attn_q.weight", MADE_WIDTH, MADE_WIDTH},   {"blk.0.attn_k.weight", MADE_WIDTH, MADE_KV},
        {"blk.0.attn_v.weight", MADE_WIDTH, MADE_KV},      {"blk.0.attn_output.weight", MADE_WIDTH, MADE_WIDTH},
        {"blk.0.ffn_gate.weight", MADE_WIDTH, MADE_INNER}, {"blk.0.ffn_up.weight", MADE_WIDTH, MADE_INNER},
        {"blk.0.ffn_down.weight", MADE_INNER, MADE_WIDTH}};
    const made_setting *all[64];
    int count = 0;
    for (int i = 0; i < MADE_SETTINGS; i++)
        all[count++] = &own[i];
    const char *more = NULL;
    for (; settings->key != NULL; settings++) {
        if (settings->kind == GGUF_ARRAY) {
            more = settings->key;
            continue;
        }
        int i = 0;
        while (i < count && strcmp(all[i]->key, settings->key) != 0)
            i++;
        all[i] = settings;
        count += i == count;
    }
    made_begin(g, MADE_ARRAYS + (more != NULL), (uint64_t)count + 3);
    for (int i = 0; i < count; i++)
        made_value(g, all[i]);
    made_array(g, "tokenizer.ggml.tokens", GGUF_TEXT, MADE_WORDS);
    for (int i = 0; i < MADE_WORDS; i++)
        made_text(g, words[i]);
    made_array(g, "tokenizer.ggml.token_type", GGUF_I32, MADE_WORDS);
    for (int i = 0; i < MADE_WORDS; i++)
        made_bits(g, words[i][0] == '<' ? 3 : 1, 4);
    made_array(g, "tokenizer.ggml.merges", GGUF_TEXT, 1);
    made_text(g, "a b");
    uint64_t place = 0;
    for (int i = 0; i < MADE_ARRAYS; i++) {
        made_tensor(g, arrays[i].name, arrays[i].columns, arrays[i].rows, GGUF_F32S, place);
        place += 4 * arrays[i].columns * (arrays[i].rows > 0 ? arrays[i].rows : 1);
    }
    if (more != NULL)
        made_tensor(g, more, MADE_KV, 0, GGUF_F32S, place);
    while (g->size % 32 != 0)
        made_bits(g, 0, 1);
    for (int i = 0; i < MADE_ARRAYS; i++)
        for (uint64_t k = 0; k < arrays[i].columns * (arrays[i].rows > 0 ? arrays[i].rows : 1); k++) {
            const float x = arrays[i].rows > 0 ? (float)((k * 37 + (uint64_t)i * 11) % 101) / 101.0f - 0.5f : 1.0f;
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            made_bits(g, bits, 4);
        }
    for (int i = 0; more != NULL && i < MADE_KV; i++)
        made_bits(g, 0, 4);
}

#endif
