/* text.h. */
#include "text.h"

#include "folder_tokenizer.h"
#include "text_file.h"

#include <stdlib.h>
#include <string.h>

enum { ENDS_MOST = 16, CONFIG_MOST = 1 << 24 };

struct text_codec {
    tk_tokenizer *tokens;
    int32_t first;           /* before each text; TK_NONE: there is none */
    int32_t ends[ENDS_MOST]; /* of an answer */
    int end_count;
    bool named_ends; /* and tokens whose names say so */
    chat_form chat;
};

static int32_t find(const text_codec *t, const char *piece) {
    return tk_find(t->tokens, piece, (int64_t)strlen(piece));
}

static void add_end(text_codec *t, int32_t id) {
    if (id >= 0 && t->end_count < ENDS_MOST)
        t->ends[t->end_count++] = id;
}

bool text_ends(const text_codec *t, int32_t id) {
    for (int i = 0; i < t->end_count; i++)
        if (t->ends[i] == id)
            return true;
    return t->named_ends && tk_ends(t->tokens, id);
}

const tk_tokenizer *text_tokenizer(const text_codec *t) { return t->tokens; }

/* ------------------------------------------------------------------------------------------- from text to tokens -- */

int64_t text_tokens(const text_codec *t, const char *bytes, size_t count, int32_t *ids, int64_t most) {
    const int64_t used = tk_encode(t->tokens, bytes, (int64_t)count, 0, ids, most);
    return used <= most ? used : -1;
}

int32_t text_first(const text_codec *t) { return t->first; }
const chat_form *text_chats(const text_codec *t) { return &t->chat; }

int64_t text_chat(const text_codec *t, const char *system, const char *user, int32_t *ids, int64_t most) {
    return chat_tokens(t->tokens, &t->chat, t->first, system, user, ids, most);
}

/* --------------------------------------------------------------------------------------------------- from a GGUF -- */

/* An array of a kind that may be absent: then *v is NULL. */
static int find_array(const gguf *f, const char *key, gguf_kind element, bool needed, const gguf_value **v,
                      complaint to) {
    *v = gguf_find(f, key);
    if (*v == NULL)
        return needed ? complain(to, gguf_path(f), "has no %s", key) : 0;
    return (*v)->kind == GGUF_ARRAY && (*v)->element == element
               ? 0
               : complain(to, gguf_path(f), "%s is not the array that it should be", key);
}

static tk_text next_text(void *at) {
    const gguf_text text = gguf_next_text(at);
    return (tk_text){text.bytes, text.count};
}

/* A text that may be absent. */
static int find_text(const gguf *f, const char *key, tk_text *text, complaint to) {
    const gguf_text found = gguf_text_of(f, key);
    *text = (tk_text){found.bytes != NULL ? found.bytes : "", found.count};
    return found.bytes != NULL || gguf_find(f, key) == NULL ? 0 : complain(to, gguf_path(f), "%s is not a text", key);
}

/* A copy of an array of 32-bit numbers, one for each token, which a file need not align. */
static int copy_numbers(const gguf *f, const gguf_value *array, int64_t count, const char *what, void **copy,
                        complaint to) {
    *copy = NULL;
    if (array == NULL)
        return 0;
    if (array->count != count)
        return complain(to, gguf_path(f), "has %lld tokens, but %s of %lld", (long long)count, what,
                        (long long)array->count);
    *copy = malloc((size_t)count * sizeof(int32_t) + 1);
    if (*copy == NULL)
        return complain(to, gguf_path(f), "out of memory");
    memcpy(*copy, array->data, (size_t)count * sizeof(int32_t));
    return 0;
}

/* The token that a setting names, in id; it stays if there is none. */
static int find_id(const gguf *f, const char *key, int64_t tokens, int32_t *id, complaint to) {
    int64_t value = *id;
    const int status = gguf_integer(f, key, false, 0, tokens - 1, &value, to);
    *id = (int32_t)value;
    return status;
}

static int find_choice(const gguf *f, const char *key, tk_choice *choice, complaint to) {
    int64_t value = -1;
    const int status = gguf_integer(f, key, false, 0, 1, &value, to);
    *choice = value < 0 ? TK_DEFAULT : value > 0 ? TK_YES : TK_NO;
    return status;
}

static unsigned named_fim(const gguf *f) {
    static const char *const keys[TK_FIMS][2] = {{"fim_pre", "prefix"},  {"fim_suf", "suffix"},
                                                 {"fim_mid", "middle"},  {"fim_pad", "fim_pad"},
                                                 {"fim_rep", "fim_rep"}, {"fim_sep", "fim_sep"}};
    char key[64];
    unsigned named = 0;
    for (int i = 0; i < TK_FIMS; i++)
        for (int j = 0; j < 2; j++) {
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[i][j]);
            named |= (gguf_find(f, key) != NULL ? 1u : 0u) << i;
        }
    return named;
}

static int read_tokenizer(text_codec *t, const gguf *f, complaint to) {
    tk_description d = {.name = gguf_path(f), .bos = TK_NONE, .eos = TK_NONE, .fim_named = named_fim(f)};
    const gguf_value *tokens, *types, *scores, *merges;
    void *type_copy = NULL, *score_copy = NULL;
    if (find_text(f, "tokenizer.ggml.model", &d.model, to) != 0 ||
        find_text(f, "tokenizer.ggml.pre", &d.pre, to) != 0 ||
        find_array(f, "tokenizer.ggml.tokens", GGUF_TEXT, true, &tokens, to) != 0 ||
        find_array(f, "tokenizer.ggml.merges", GGUF_TEXT, false, &merges, to) != 0 ||
        find_array(f, "tokenizer.ggml.token_type", GGUF_I32, false, &types, to) != 0 ||
        find_array(f, "tokenizer.ggml.scores", GGUF_F32, false, &scores, to) != 0 ||
        find_id(f, "tokenizer.ggml.bos_token_id", tokens->count, &d.bos, to) != 0 ||
        find_id(f, "tokenizer.ggml.eos_token_id", tokens->count, &d.eos, to) != 0 ||
        find_choice(f, "tokenizer.ggml.add_bos_token", &d.add_bos, to) != 0 ||
        find_choice(f, "tokenizer.ggml.add_eos_token", &d.add_eos, to) != 0 ||
        find_choice(f, "tokenizer.ggml.add_space_prefix", &d.space_prefix, to) != 0)
        return -1;
    const uint8_t *at = tokens->data, *merge_at = merges != NULL ? merges->data : NULL;
    int status = -1;
    if (copy_numbers(f, types, tokens->count, "types", &type_copy, to) == 0 &&
        copy_numbers(f, scores, tokens->count, "scores", &score_copy, to) == 0) {
        d.tokens = (tk_list){tokens->count, next_text, &at};
        d.merges = (tk_list){merges != NULL ? merges->count : 0, next_text, &merge_at};
        d.types = type_copy;
        d.scores = score_copy;
        status = tk_create(&d, &t->tokens, to);
    }
    free(type_copy);
    free(score_copy);
    return status;
}

/* The token before each text, those that end an answer, and the chat. */
static int read_rules(text_codec *t, const gguf *f, complaint to) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
                                       "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};
    tk_text chat;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int32_t id = TK_NONE;
        if (find_id(f, ends[i], tk_count(t->tokens), &id, to) != 0)
            return -1;
        add_end(t, id);
    }
    t->named_ends = true;
    t->first = tk_before(t->tokens);
    if (find_text(f, "tokenizer.chat_template", &chat, to) != 0)
        return -1;
    if (gguf_find(f, "tokenizer.chat_template") != NULL)
        chat_read(t->tokens, chat.bytes, (size_t)chat.count, &t->chat);
    return 0;
}

int text_from_gguf(const gguf *file, text_codec **out, complaint to) {
    *out = NULL;
    text_codec *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, gguf_path(file), "out of memory");
    if (read_tokenizer(t, file, to) == 0 && read_rules(t, file, to) == 0)
        return *out = t, 0;
    text_free(t);
    return -1;
}

/* ------------------------------------------------------------------------------------------------- from a folder -- */

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

/* The same rules as of a GGUF file, from the files in the folder of tokenizer.json. */
static int read_folder(text_codec *t, const char *folder, complaint to) {
    char path[PATH_MOST];
    json_t *generation = NULL, *model = NULL, *config = NULL;
    int64_t bytes;
    int status = 0;
    if (text_file_json_in(folder, "generation_config.json", CONFIG_MOST, path, &generation, to) != 0 ||
        text_file_json_in(folder, "config.json", CONFIG_MOST, path, &model, to) != 0 ||
        text_file_json_in(folder, "tokenizer_config.json", CONFIG_MOST, path, &config, to) != 0)
        status = -1;
    if (status == 0)
        t->named_ends = !add_ends(t, generation) && !add_ends(t, model);
    const json_t *first = json_object_get(config, "bos_token");
    const char *piece = json_string_value(json_is_object(first) ? json_object_get(first, "content") : first);
    if (status == 0 && json_is_true(json_object_get(config, "add_bos_token")) &&
        (piece == NULL || (t->first = find(t, piece)) == TK_NONE))
        status = complain(to, folder, "tokenizer_config.json: add_bos_token, but bos_token is no token");
    const char *chat = find_template(config);
    char *file = NULL;
    if (status == 0)
        status = path_join(path, folder, "chat_template.jinja", to);
    if (status == 0 && path_exists(path)) {
        chat = file = text_file_read(path, CONFIG_MOST, &bytes, to);
        status = file != NULL ? 0 : -1;
    }
    if (chat != NULL)
        chat_read(t->tokens, chat, strlen(chat), &t->chat);
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
    t->first = TK_NONE;
    int status = folder_tokenizer(folder, FOLDER_NONE, &t->tokens, to);
    if (status == 0 && !tk_byte_level(t->tokens))
        status = complain(to, folder, "has no byte-level BPE");
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
    tk_free(t->tokens);
    chat_free(&t->chat);
    free(t);
}
