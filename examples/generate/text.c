/* text.h. Pieces and merges are bpe.h's. */
#include "text.h"

#include "bpe.h"
#include "chatml.h"
#include "text_file.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

enum { CODES = 1 << 12, ENDS_MOST = 16, PATH_MOST = 4096, CONFIG_MOST = 1 << 24 };

struct text_codec {
    const bpe *pieces;
    bpe *own; /* pieces, or folder's */
    tokenizer *folder;
    int32_t begin, end;      /* <|im_start|>, <|im_end|>; VOCABULARY_NONE: there is none */
    int32_t first;           /* before each text; likewise */
    int32_t ends[ENDS_MOST]; /* of an answer */
    int end_count;
    text_chat_kind chat;
    char *system;    /* of the chat, unless there is another; or NULL */
    char *bytes;     /* of all tokens */
    int64_t *starts; /* [count + 1] in bytes */
};

static int32_t find(const text_codec *t, const char *piece) {
    return vocabulary_find(bpe_pieces(t->pieces), "", piece, strlen(piece));
}

/* ------------------------------------------------------------------------------------------- from tokens to text -- */

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

static void add_end(text_codec *t, int32_t id) {
    if (id >= 0 && t->end_count < ENDS_MOST)
        t->ends[t->end_count++] = id;
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
    add_end(t, t->end);
    add_end(t, find(t, "<|endoftext|>"));
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *piece = vocabulary_text(v, (int32_t)i);
        t->starts[i] = at;
        if (piece != NULL && !(special != NULL ? special[i] != 0 : i == t->begin || text_ends(t, (int32_t)i)))
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

bool text_ends(const text_codec *t, int32_t id) {
    for (int i = 0; i < t->end_count; i++)
        if (t->ends[i] == id)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------- from text to tokens -- */

int64_t text_tokens(const text_codec *t, const char *bytes, size_t count, int32_t *ids, int64_t most) {
    const int64_t used = bpe_tokens(t->pieces, bytes, count, ids, most);
    return used < most ? used : -1;
}

int32_t text_first(const text_codec *t) { return t->first; }
text_chat_kind text_chats(const text_codec *t) { return t->chat; }

static void read_template(text_codec *t, const char *bytes, size_t count) {
    const bool tokens = t->begin != VOCABULARY_NONE && t->end != VOCABULARY_NONE;
    t->chat = chatml_read(bytes, count, &t->system) && tokens ? TEXT_CHATML : TEXT_OTHER_CHAT;
}

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
    if (system == NULL)
        system = t->system;
    const bool fits = t->chat == TEXT_CHATML && most > 0 && (t->first < 0 || add_id(t->first, ids, &used, most)) &&
                      (system == NULL || add_message(t, "system", system, ids, &used, most)) &&
                      add_message(t, "user", user, ids, &used, most) && add_id(t->begin, ids, &used, most) &&
                      add_text(t, "assistant\n", ids, &used, most);
    return fits ? used : -1;
}

/* --------------------------------------------------------------------------------------------------- from a GGUF -- */

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

/* Which tokens are special: types other than 1, normal, and 6, a byte. Those of type 4, the user's, are cut out of a
 * text before BPE sees it, which is not done here. */
static int list_special(text_codec *t, const gguf *f, const gguf_value *types, complaint to) {
    uint8_t *special = calloc((size_t)types->count + 1, 1);
    if (special == NULL)
        return complain(to, gguf_path(f), "out of memory");
    for (int64_t i = 0; i < types->count; i++) {
        const int32_t type = gguf_i32_at(types, i);
        special[i] = type != 1 && type != 6;
        if (type == 4) {
            free(special);
            return complain(to, gguf_path(f),
                            "token %lld is user-defined (tokenizer.ggml.token_type 4), which is not read here",
                            (long long)i);
        }
    }
    const int status = list_texts(t, special, gguf_path(f), to);
    free(special);
    return status;
}

/* The token before each text, those that end an answer, and the chat. */
static int read_rules(text_codec *t, const gguf *f, complaint to) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
                                       "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};
    int64_t first = 0, id;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        id = VOCABULARY_NONE;
        if (gguf_integer(f, ends[i], false, 0, text_count(t) - 1, &id, to) != 0)
            return -1;
        add_end(t, (int32_t)id);
    }
    if (gguf_integer(f, "tokenizer.ggml.add_bos_token", false, 0, 1, &first, to) != 0 ||
        (first && gguf_integer(f, "tokenizer.ggml.bos_token_id", true, 0, text_count(t) - 1, &id, to) != 0))
        return -1;
    t->first = first ? (int32_t)id : VOCABULARY_NONE;
    const gguf_text chat = gguf_text_of(f, "tokenizer.chat_template");
    if (chat.bytes != NULL)
        read_template(t, chat.bytes, (size_t)chat.count);
    else if (gguf_find(f, "tokenizer.chat_template") != NULL)
        return complain(to, gguf_path(f), "tokenizer.chat_template is not a text");
    return 0;
}

static int read_gguf(text_codec *t, const gguf *f, complaint to) {
    static const char *const models[] = {"gpt2", NULL}, *const cuts[] = {"gpt-2", "smollm", NULL};
    int model = 0, digits = 0;
    if (gguf_word(f, "tokenizer.ggml.model", true, models, &model, to) != 0 ||
        gguf_word(f, "tokenizer.ggml.pre", true, cuts, &digits, to) != 0)
        return -1;
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
    return list_special(t, f, types, to) == 0 ? read_rules(t, f, to) : -1;
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

/* ------------------------------------------------------------------------------------------------- from a folder -- */

/* The object of a file, NULL if there is none. */
static int open_json(const char *folder, const char *name, json_t **object, complaint to) {
    char path[PATH_MOST];
    *object = NULL;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MOST
               ? text_file_json(path, CONFIG_MOST, object, to)
               : complain(to, name, "the model's folder has too long a name");
}

/* eos_token_id: an id, or a list of them. False: the file does not say. */
static bool add_ends(text_codec *t, const json_t *object) {
    const json_t *ids = json_object_get(object, "eos_token_id");
    for (size_t i = 0; i < json_array_size(ids); i++)
        add_end(t, (int32_t)json_integer_value(json_array_get(ids, i)));
    if (json_is_integer(ids))
        add_end(t, (int32_t)json_integer_value(ids));
    return json_is_integer(ids) || json_is_array(ids);
}

/* A template, or that of the name "default" of a list of them. */
static const char *find_template(const json_t *config) {
    const json_t *chat = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(chat); i++) {
        const json_t *one = json_array_get(chat, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(chat);
}

/* The same rules as of a GGUF file, from the files beside tokenizer.json. */
static int read_folder(text_codec *t, const char *folder, complaint to) {
    char path[PATH_MOST];
    json_t *generation = NULL, *model = NULL, *config = NULL;
    int64_t bytes;
    int status = 0;
    if (open_json(folder, "generation_config.json", &generation, to) != 0 ||
        open_json(folder, "config.json", &model, to) != 0 ||
        open_json(folder, "tokenizer_config.json", &config, to) != 0)
        status = -1;
    if (status == 0 && !add_ends(t, generation))
        add_ends(t, model);
    const json_t *first = json_object_get(config, "bos_token");
    const char *piece = json_string_value(json_is_object(first) ? json_object_get(first, "content") : first);
    if (status == 0 && json_is_true(json_object_get(config, "add_bos_token")) &&
        (piece == NULL || (t->first = find(t, piece)) == VOCABULARY_NONE))
        status = complain(to, folder, "tokenizer_config.json: add_bos_token, but bos_token is no token");
    const char *chat = find_template(config);
    char *file = NULL;
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    if (status == 0 && access(path, F_OK) == 0) {
        chat = file = text_file_read(path, CONFIG_MOST, &bytes, to);
        status = file != NULL ? 0 : -1;
    }
    if (chat != NULL)
        read_template(t, chat, strlen(chat));
    free(file);
    json_decref(generation);
    json_decref(model);
    json_decref(config);
    return status;
}

int text_from_folder(const char *folder, text_codec **out, complaint to) {
    *out = NULL;
    text_codec *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, folder, "out of memory");
    t->first = VOCABULARY_NONE;
    int status = tokenizer_open(folder, TOKENIZER_NONE, &t->folder, to);
    if (status == 0 && (t->pieces = tokenizer_bpe(t->folder)) == NULL)
        status = complain(to, folder, "has no byte-level BPE");
    if (status == 0)
        status = list_texts(t, NULL, folder, to);
    if (status == 0)
        status = read_folder(t, folder, to);
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
    free(t->system);
    free(t->bytes);
    free(t->starts);
    free(t);
}
