/* small.h. */
#include "small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 2048, BYTES = 1 << 16 };

const char *const small_names[SMALL_NAMES] = {"smollm", "gpt-2", "qwen2", "qwen35", "llama-bpe", "llama"};

static const struct {
    const char *text;
    int32_t type;
} special[] = {{"<|endoftext|>", 3}, {"<|im_start|>", 3}, {"<|im_end|>", 3}, {"<s>", 3},   {"</s>", 3}, {"<unk>", 2},
               {"<tool>", 4},        {"\n\n\n", 4},       {"\n\n", 4},       {"<ab>>", 4}, {"b>>>", 4}};

typedef struct making {
    char merges[BYTES], bytes[BYTES], *at;
    const char *tokens[TOKENS], *merge;
    int32_t types[TOKENS];
    float scores[TOKENS];
    int64_t count, merge_count, next;
} making;

static tk_text next_token(void *at) {
    making *m = at;
    const char *token = m->tokens[m->next++];
    return (tk_text){token, (int64_t)strlen(token)};
}

static tk_text next_merge(void *at) {
    making *m = at;
    const tk_text line = {m->merge, (int64_t)strcspn(m->merge, "\n")};
    m->merge += line.count + 1;
    return line;
}

static void add(making *m, const char *text, int32_t type) {
    for (int64_t i = 0; i < m->count; i++)
        if (strcmp(m->tokens[i], text) == 0)
            return;
    m->tokens[m->count] = strcpy(m->at, text);
    m->at += strlen(text) + 1;
    m->types[m->count] = type;
    m->scores[m->count] = -(float)(m->count / 2);
    m->count++;
}

/* A character of less than U+0800, as a text. */
static const char *character(int code, char to[3]) {
    to[0] = (char)(code < 0x80 ? code : 0xc0 | code >> 6);
    to[1] = (char)(code < 0x80 ? 0 : 0x80 | (code & 0x3f));
    to[2] = '\0';
    return to;
}

/* The characters that stand for bytes, as GPT-2 has them. */
static void list_codes(int codes[256]) {
    int others = 256;
    for (int byte = 0; byte < 256; byte++)
        codes[byte] = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad) ? byte : others++;
}

static bool is_utf8(const char *text) {
    while (*text) {
        const unsigned char c = (unsigned char)*text++;
        for (int more = c < 0x80 ? 0 : c < 0xc0 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3; more != 0; more--, text++)
            if (more < 0 || ((unsigned char)*text & 0xc0) != 0x80)
                return false;
    }
    return true;
}

/* The text of a merge, with U+2581 for spaces. */
static void spell(const char *merge, const int codes[256], char *to) {
    for (const unsigned char *at = (const unsigned char *)merge; *at;) {
        const int code = *at < 0x80 ? *at : (*at & 0x1f) << 6 | (at[1] & 0x3f);
        int byte = 0;
        at += *at < 0x80 ? 1 : 2;
        while (codes[byte] != code)
            byte++;
        if (byte == ' ')
            to = strcpy(to, "\u2581") + 3;
        else
            *to++ = (char)byte;
    }
    *to = '\0';
}

static void add_merges(making *m, const int codes[256], bool pieces) {
    for (const char *at = m->merges; *at;) {
        char text[64], spelt[64];
        const size_t length = strcspn(at, "\n"), left = strcspn(at, " ");
        snprintf(text, sizeof text, "%.*s%.*s", (int)left, at, (int)(length - left - 1), at + left + 1);
        at += length + 1;
        m->merge_count++;
        spell(text, codes, spelt);
        if (!pieces)
            add(m, text, TK_NORMAL);
        else if (is_utf8(spelt))
            add(m, spelt, TK_NORMAL);
    }
}

static void fill(making *m, bool pieces) {
    int codes[256];
    char text[8];
    m->at = m->bytes;
    list_codes(codes);
    if (pieces) {
        add(m, "<unk>", TK_UNKNOWN);
        add(m, "<s>", TK_CONTROL);
        add(m, "</s>", TK_CONTROL);
        for (int byte = 0; byte < 256; byte++) {
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
            add(m, text, TK_BYTE);
        }
        add(m, "\u2581", TK_NORMAL);
    }
    for (int byte = pieces ? '!' : 0; byte < (pieces ? 0x7f : 256); byte++)
        add(m, character(codes[byte], text), TK_NORMAL);
    add_merges(m, codes, pieces);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        add(m, special[i].text, special[i].type);
}

int small_create(const char *path, const char *name, tk_tokenizer **t, complaint to) {
    const bool pieces = strcmp(name, "llama") == 0;
    const char *model = pieces ? "llama" : "gpt2";
    making *m = calloc(1, sizeof *m);
    FILE *file = fopen(path, "rb");
    int status = -1;
    *t = NULL;
    if (m == NULL || file == NULL || fread(m->merges, 1, BYTES - 1, file) == 0)
        complain(to, path, "cannot be read");
    else {
        fill(m, pieces);
        m->merge = m->merges;
        tk_description d = {.name = name,
                            .model = {model, (int64_t)strlen(model)},
                            .pre = {name, (int64_t)strlen(name)},
                            .tokens = {m->count, next_token, m},
                            .merges = {m->merge_count, next_merge, m},
                            .types = m->types,
                            .scores = m->scores,
                            .add_bos = strcmp(name, "smollm") == 0 ? TK_YES : TK_DEFAULT,
                            .add_eos = pieces || strcmp(name, "gpt-2") == 0 ? TK_YES : TK_DEFAULT};
        for (int32_t i = 0; i < m->count; i++) {
            d.bos = strcmp(m->tokens[i], "<s>") == 0 ? i : d.bos;
            d.eos = strcmp(m->tokens[i], "</s>") == 0 ? i : d.eos;
        }
        status = tk_create(&d, t, to);
    }
    if (file != NULL)
        fclose(file);
    free(m);
    return status;
}
