/* text.h. Pieces and merges are bpe.h's. */
#include "text.h"

#include "bpe.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { CODES = 1 << 12 };

static const char system_message[] = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

struct text_codec {
    const bpe *pieces;
    bpe *own; /* pieces, or folder's */
    tokenizer *folder;
    int32_t begin, end, over; /* <|im_start|>, <|im_end|>, <|endoftext|>; VOCABULARY_NONE: there is none */
    char *bytes;              /* of all tokens */
    int64_t *starts;          /* [count + 1] in bytes */
};

static int32_t find(const text_codec *t, const char *piece) {
    return vocabulary_find(bpe_pieces(t->pieces), "", piece, strlen(piece));
}

/* ------------------------------------------------------------------------------------------------- from tokens to text -- */

/* Bytes by the characters that stand for them, as in bpe.c; -1: the character stands for none. */
static void list_codes(int16_t codes[CODES]) {
    int others = 256;
    for (int i = 0; i < CODES; i++)
        codes[i] = -1;
    for (int byte = 0; byte < 256; byte++) {
        const bool printable = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        codes[printable ? byte : others++] = (int16_t)byte;
    }
}

/* The bytes of a piece to to; how many. What stands for no byte is left out. */
static int64_t decode(const int16_t codes[CODES], const char *piece, char *to) {
    int64_t count = 0;
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)piece;
    while (*at != 0) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t length = utf8proc_iterate(at, -1, &c);
        at += length > 0 ? length : 1;
        if (length > 0 && c < CODES && codes[c] >= 0)
            to[count++] = (char)codes[c];
    }
    return count;
}

/* special, unless NULL: a nonzero byte for each token that has no text. */
static int list_texts(text_codec *t, const uint8_t *special, const char *path, complaint to) {
    const vocabulary *v = bpe_pieces(t->pieces);
    const int64_t count = vocabulary_count(v);
    int16_t codes[CODES];
    size_t all = 1;
    list_codes(codes);
    for (int64_t i = 0; i < count; i++)
        all += vocabulary_text(v, (int32_t)i) != NULL ? strlen(vocabulary_text(v, (int32_t)i)) : 0;
    t->bytes = malloc(all);
    t->starts = malloc((size_t)(count + 1) * sizeof *t->starts);
    if (t->bytes == NULL || t->starts == NULL)
        return complain(to, path, "out of memory");
    t->begin = find(t, "<|im_start|>");
    t->end = find(t, "<|im_end|>");
    t->over = find(t, "<|endoftext|>");
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *piece = vocabulary_text(v, (int32_t)i);
        t->starts[i] = at;
        if (piece != NULL && !(special != NULL ? special[i] != 0 : i == t->begin || i == t->end || i == t->over))
            at += decode(codes, piece, t->bytes + at);
    }
    t->starts[count] = at;
    return 0;
}

const char *text_of(const text_codec *t, int32_t id, int64_t *length) {
    if (id < 0 || id >= text_count(t)) {
        *length = 0;
        return t->bytes;
    }
    *length = t->starts[id + 1] - t->starts[id];
    return t->bytes + t->starts[id];
}

int64_t text_count(const text_codec *t) { return vocabulary_count(bpe_pieces(t->pieces)); }

bool text_ends(const text_codec *t, int32_t id) { return id >= 0 && (id == t->end || id == t->over); }

/* ------------------------------------------------------------------------------------------------- from text to tokens -- */

int64_t text_tokens(const text_codec *t, const char *bytes, size_t count, int32_t *ids, int64_t most) {
    const int64_t used = bpe_tokens(t->pieces, bytes, count, ids, most);
    return used < most ? used : -1;
}

bool text_chats(const text_codec *t) { return t->begin != VOCABULARY_NONE && t->end != VOCABULARY_NONE; }

static bool add_id(int32_t id, int32_t *ids, int64_t *used, int64_t most) {
    ids[*used] = id;
    return ++*used < most;
}

static bool add_text(const text_codec *t, const char *bytes, int32_t *ids, int64_t *used, int64_t most) {
    const int64_t count = text_tokens(t, bytes, strlen(bytes), ids + *used, most - *used);
    *used += count > 0 ? count : 0;
    return count >= 0 && *used < most;
}

/* <|im_start|>ROLE newline MESSAGE<|im_end|> newline. The role and the message are one text between special tokens. */
static bool add_message(const text_codec *t, const char *role, const char *message, int32_t *ids, int64_t *used,
                        int64_t most) {
    const size_t size = strlen(role) + strlen(message) + 2;
    char *both = malloc(size);
    if (both == NULL)
        return false;
    snprintf(both, size, "%s\n%s", role, message);
    const bool fits = add_id(t->begin, ids, used, most) && add_text(t, both, ids, used, most) &&
                      add_id(t->end, ids, used, most) && add_text(t, "\n", ids, used, most);
    free(both);
    return fits;
}

int64_t text_chat(const text_codec *t, const char *system, const char *user, int32_t *ids, int64_t most) {
    int64_t used = 0;
    const bool fits = text_chats(t) && most > 0 &&
                      add_message(t, "system", system != NULL ? system : system_message, ids, &used, most) &&
                      add_message(t, "user", user, ids, &used, most) && add_id(t->begin, ids, &used, most) &&
                      add_text(t, "assistant\n", ids, &used, most);
    return fits ? used : -1;
}

/* ----------------------------------------------------------------------------------------------------- from a GGUF -- */

static const gguf_value *need_array(const gguf *f, const char *key, gguf_kind element, complaint to) {
    const gguf_value *v = gguf_find(f, key);
    if (v != NULL && v->kind == GGUF_ARRAY && v->element == element)
        return v;
    complain(to, gguf_path(f), v == NULL ? "has no %s" : "%s is not the array that it should be", key);
    return NULL;
}

static int list_pieces(const gguf *f, const gguf_value *tokens, vocabulary **v, complaint to) {
    const char **bytes = malloc((size_t)(tokens->count + 1) * sizeof *bytes);
    int64_t *lengths = malloc((size_t)(tokens->count + 1) * sizeof *lengths);
    int status = -1;
    if (bytes == NULL || lengths == NULL)
        complain(to, gguf_path(f), "out of memory");
    else {
        const uint8_t *at = tokens->data;
        for (int64_t i = 0; i < tokens->count; i++) {
            const gguf_text piece = gguf_next_text(&at);
            bytes[i] = piece.bytes;
            lengths[i] = piece.count;
        }
        status = vocabulary_from_list(gguf_path(f), bytes, lengths, tokens->count, v, to);
    }
    free(bytes);
    free(lengths);
    return status;
}

/* Merges are texts, "Ġ t". */
static int add_merges(text_codec *t, const gguf *f, const gguf_value *merges, complaint to) {
    const uint8_t *at = merges->data;
    for (int64_t i = 0; i < merges->count; i++) {
        const gguf_text merge = gguf_next_text(&at);
        const char *space = memchr(merge.bytes, ' ', (size_t)merge.count);
        const size_t left = space != NULL ? (size_t)(space - merge.bytes) : (size_t)merge.count;
        if (space == NULL)
            return complain(to, gguf_path(f), "merge %lld is not two pieces", (long long)i + 1);
        if (bpe_add_merge(t->own, merge.bytes, left, space + 1, (size_t)merge.count - left - 1, gguf_path(f), to) != 0)
            return -1;
    }
    return 0;
}

/* Which tokens are special: types other than 1, normal, 4, the user's, and 6, a byte. */
static int list_special(text_codec *t, const gguf *f, const gguf_value *types, complaint to) {
    uint8_t *special = calloc((size_t)types->count + 1, 1);
    if (special == NULL)
        return complain(to, gguf_path(f), "out of memory");
    for (int64_t i = 0; i < types->count; i++) {
        const int32_t type = gguf_i32_at(types, i);
        special[i] = type != 1 && type != 4 && type != 6;
    }
    const int status = list_texts(t, special, gguf_path(f), to);
    free(special);
    return status;
}

static int read_gguf(text_codec *t, const gguf *f, complaint to) {
    if (!gguf_is(f, "tokenizer.ggml.model", "gpt2"))
        return complain(to, gguf_path(f), "its tokenizer is not byte-level BPE (tokenizer.ggml.model is not gpt2)");
    const bool digits = gguf_is(f, "tokenizer.ggml.pre", "smollm");
    if (!digits && !gguf_is(f, "tokenizer.ggml.pre", "gpt-2") && !gguf_is(f, "tokenizer.ggml.pre", "default"))
        return complain(to, gguf_path(f), "its tokenizer cuts text by rules other than those of GPT-2 and SmolLM");
    const gguf_value *tokens = need_array(f, "tokenizer.ggml.tokens", GGUF_TEXT, to);
    const gguf_value *types = tokens ? need_array(f, "tokenizer.ggml.token_type", GGUF_I32, to) : NULL;
    const gguf_value *merges = types ? need_array(f, "tokenizer.ggml.merges", GGUF_TEXT, to) : NULL;
    vocabulary *v;
    if (merges == NULL)
        return -1;
    if (types->count != tokens->count)
        return complain(to, gguf_path(f), "has %lld tokens, but types of %lld", (long long)tokens->count,
                        (long long)types->count);
    if (list_pieces(f, tokens, &v, to) != 0 || bpe_create(v, merges->count, gguf_path(f), &t->own, to) != 0 ||
        add_merges(t, f, merges, to) != 0)
        return -1;
    t->pieces = t->own;
    if (digits)
        bpe_cut_digits(t->own);
    return list_special(t, f, types, to);
}

int text_from_gguf(const gguf *file, text_codec **out, complaint to) {
    *out = NULL;
    text_codec *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, gguf_path(file), "out of memory");
    if (read_gguf(t, file, to) == 0)
        return *out = t, 0;
    text_free(t);
    return -1;
}

int text_from_folder(const char *folder, text_codec **out, complaint to) {
    *out = NULL;
    text_codec *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, folder, "out of memory");
    int status = tokenizer_open(folder, TOKENIZER_NONE, &t->folder, to);
    if (status == 0 && (t->pieces = tokenizer_bpe(t->folder)) == NULL)
        status = complain(to, folder, "has no byte-level BPE");
    if (status == 0)
        status = list_texts(t, NULL, folder, to);
    if (status == 0)
        *out = t;
    else
        text_free(t);
    return status;
}

void text_free(text_codec *t) {
    if (t == NULL)
        return;
    bpe_free(t->own);
    tokenizer_close(t->folder);
    free(t->bytes);
    free(t->starts);
    free(t);
}
