/* folder_tokenizer.h. */
#include "folder_tokenizer.h"

#include "characters.h"
#include "folder_tokenizer_private.h"
#include "text_file.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28, IDS_MOST = 1 << 22 };

/* A folder, and who asks for its tokenizer. */
typedef struct place {
    const char *folder;
    folder_frame frame;
    tk_tokenizer **t;
    complaint to;
} place;

static bool has(const place *p, const char *name) {
    char path[PATH_MOST];
    return path_join(path, p->folder, name, p->to) == 0 && path_exists(path);
}

/* A flag of an object; otherwise, if it is absent or null. */
static bool flag(const json_t *object, const char *name, bool otherwise) {
    const json_t *value = json_object_get(object, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* The tokenizer of the file at path that d describes but for its name and frame. */
static int create(const place *p, const char *path, tk_description d) {
    const bool cls = d.wordpiece != NULL && p->frame != FOLDER_BOTH;
    d.name = path;
    d.bos = d.eos = TK_NONE;
    if (cls || p->frame == FOLDER_BOTH) {
        d.before = cls ? "[CLS]" : "<s>";
        d.behind = cls ? "[SEP]" : "</s>";
    } else if (p->frame == FOLDER_FIRST)
        d.before = "</s>";
    return tk_create(&d, p->t, p->to);
}

/* -------------------------------------------------------------------------------------------------- vocabularies -- */

/* Lines of a text, which end it, too; skip: empty ones, carriage returns, and a comment at the begin are nothing. */
typedef struct lines {
    const char *text, *at;
    bool skip;
} lines;

static tk_text next_line(void *at) {
    lines *l = at;
    while (*l->at) {
        const char *line = l->at;
        size_t length = strcspn(line, "\n");
        l->at += length + (line[length] == '\n');
        length -= l->skip && length > 0 && line[length - 1] == '\r';
        if (!l->skip || (length > 0 && !(line == l->text && line[0] == '#')))
            return (tk_text){line, (int64_t)length};
    }
    return (tk_text){"", 0};
}

/* All of them, as a list; an empty line ends it. */
static tk_list list_lines(lines *l) {
    int64_t count = 0;
    while (next_line(l).count > 0)
        count++;
    l->at = l->text;
    return (tk_list){count, next_line, l};
}

/* Pieces of a JSON object {piece: id}, by id; NULL: the id has none. They are owned by the object. */
typedef struct pieces {
    const char **by_id;
    int64_t count, at;
} pieces;

static tk_text next_piece(void *at) {
    pieces *p = at;
    const char *piece = p->by_id[p->at++];
    return piece != NULL ? (tk_text){piece, (int64_t)strlen(piece)} : (tk_text){"", 0};
}

/* To be freed by free(p->by_id). */
static int list_pieces(const json_t *object, const char *path, pieces *p, complaint to) {
    const char *piece;
    json_t *id;
    *p = (pieces){0};
    json_object_foreach((json_t *)object, piece, id) {
        const int64_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= IDS_MOST)
            return complain(to, path, "the id of a piece of its vocabulary is not a number from 0 to %d", IDS_MOST - 1);
        if (*piece == '\0')
            return complain(to, path, "piece %lld of its vocabulary is empty", (long long)number);
        p->count = number + 1 > p->count ? number + 1 : p->count;
    }
    if (p->count == 0)
        return complain(to, path, "its vocabulary is empty");
    p->by_id = calloc((size_t)p->count, sizeof *p->by_id);
    if (p->by_id == NULL)
        return complain(to, path, "out of memory");
    json_object_foreach((json_t *)object, piece, id) {
        const char **slot = &p->by_id[json_integer_value(id)];
        if (*slot != NULL)
            return complain(to, path, "two pieces of its vocabulary have the id %lld",
                            (long long)json_integer_value(id));
        *slot = piece;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- WordPiece -- */

static tk_wordpiece_rules rules_of(const json_t *object, const char *lower_case, const char *chinese) {
    const bool lower = flag(object, lower_case, true);
    return (tk_wordpiece_rules){.keep_case = !lower,
                                .keep_accents = !flag(object, "strip_accents", lower),
                                .join_chinese = !flag(object, chinese, true)};
}

static int create_words(const place *p, const char *path, tk_list tokens, tk_wordpiece_rules rules) {
    rules.characters = &tk_characters_utf8proc;
    return create(p, path, (tk_description){.model = {"WordPiece", 9}, .tokens = tokens, .wordpiece = &rules});
}

/* vocab.txt, with what tokenizer_config.json says of it. */
static int open_vocab_txt(const place *p) {
    char path[PATH_MOST];
    json_t *config;
    int64_t bytes;
    if (text_file_json_in(p->folder, "tokenizer_config.json", FILE_MOST, path, &config, p->to) != 0 ||
        path_join(path, p->folder, "vocab.txt", p->to) != 0)
        return -1;
    const tk_wordpiece_rules rules = rules_of(config, "do_lower_case", "tokenize_chinese_chars");
    json_decref(config);
    char *text = text_file_read(path, FILE_MOST, &bytes, p->to);
    if (text == NULL)
        return -1;
    lines l = {text, text, false};
    const tk_list list = list_lines(&l);
    const bool empty = *text == '\0' || *text == '\n' || strstr(text, "\n\n") != NULL;
    const int status = empty ? complain(p->to, path, "line %lld is empty", (long long)list.count + 1)
                             : create_words(p, path, list, rules);
    free(text);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- BPE -- */

/* tk_type by id, to be freed: pieces of added_tokens are special or cut out of texts. NULL: no memory. */
static int32_t *added_types(const json_t *root, int64_t count) {
    int32_t *types = malloc((size_t)count * sizeof *types);
    size_t i;
    json_t *added;
    for (int64_t id = 0; types != NULL && id < count; id++)
        types[id] = TK_NORMAL;
    json_array_foreach(json_object_get(root, "added_tokens"), i, added) {
        const json_int_t id = json_integer_value(json_object_get(added, "id"));
        if (types != NULL && id >= 0 && id < count)
            types[id] = flag(added, "special", true) ? TK_CONTROL : TK_USER;
    }
    return types;
}

/* Byte-level BPE of a JSON object of pieces; root: the tokenizer.json that it is in, or NULL. */
static int create_bytes(const place *p, const char *path, const json_t *vocabulary, const json_t *root,
                        tk_description d, const char *rule) {
    pieces list;
    int32_t *types = NULL;
    int status = list_pieces(vocabulary, path, &list, p->to);
    if (status == 0 && root != NULL && (types = added_types(root, list.count)) == NULL)
        status = complain(p->to, path, "out of memory");
    d.model = (tk_text){"gpt2", 4};
    d.pre = (tk_text){rule, (int64_t)strlen(rule)};
    d.tokens = (tk_list){list.count, next_piece, &list};
    d.types = types;
    if (status == 0)
        status = create(p, path, d);
    free(list.by_id);
    free(types);
    return status;
}

/* vocab.json and merges.txt. */
static int open_merges(const place *p) {
    char path[PATH_MOST], merges_path[PATH_MOST];
    json_t *vocabulary;
    int64_t bytes;
    if (path_join(merges_path, p->folder, "merges.txt", p->to) != 0 ||
        text_file_json_in(p->folder, "vocab.json", FILE_MOST, path, &vocabulary, p->to) != 0)
        return -1;
    char *text = text_file_read(merges_path, FILE_MOST, &bytes, p->to);
    lines l = {text, text, true};
    const int status =
        text != NULL ? create_bytes(p, path, vocabulary, NULL, (tk_description){.merges = list_lines(&l)}, "gpt-2")
                     : -1;
    free(text);
    json_decref(vocabulary);
    return status;
}

/* Merges of a tokenizer.json: each a text, "Ġ t", or a pair of texts. What is neither is no merge, and refused. */
typedef struct json_merges {
    const json_t *list;
    size_t at;
    char pair[2 * PATH_MOST];
} json_merges;

static tk_text next_merge(void *at) {
    json_merges *m = at;
    const json_t *merge = json_array_get(m->list, m->at++);
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (json_is_string(merge))
        return (tk_text){json_string_value(merge), (int64_t)json_string_length(merge)};
    const int length = left != NULL && right != NULL ? snprintf(m->pair, sizeof m->pair, "%s %s", left, right) : 0;
    return (tk_text){m->pair, length < (int)sizeof m->pair ? length : 0};
}

/* Does the text come to BPE as bytes, cut by GPT-2's rule alone, or (digits) at each digit before? */
static bool is_byte_level(const json_t *root, bool *digits) {
    const json_t *before = json_object_get(root, "pre_tokenizer"), *steps = json_object_get(before, "pretokenizers");
    const json_t *normalizer = json_object_get(root, "normalizer"), *first = json_array_get(steps, 0);
    *digits = folder_is_type(before, "Sequence") && json_array_size(steps) == 2 && folder_is_type(first, "Digits") &&
              flag(first, "individual_digits", false);
    if (*digits)
        before = json_array_get(steps, 1);
    return folder_is_type(before, "ByteLevel") && (normalizer == NULL || json_is_null(normalizer)) &&
           flag(before, "use_regex", true);
}

static int open_json_bytes(const place *p, const json_t *root, const char *path) {
    const json_t *model = json_object_get(root, "model"), *merges = json_object_get(model, "merges");
    json_merges list = {merges, 0, ""};
    bool digits;
    if (!is_byte_level(root, &digits))
        return complain(p->to, path, "splits words by an unknown rule; known is byte-level BPE, like GPT-2's");
    const tk_description d = {.merges = {(int64_t)json_array_size(merges), next_merge, &list},
                              .space_first =
                                  !digits && flag(json_object_get(root, "pre_tokenizer"), "add_prefix_space", false)};
    return create_bytes(p, path, json_object_get(model, "vocab"), root, d, digits ? "smollm" : "gpt-2");
}

/* ------------------------------------------------------------------------------------------------ tokenizer.json -- */

static int open_json_words(const place *p, const json_t *root, const char *path) {
    const json_t *normalizer = json_object_get(root, "normalizer");
    tk_wordpiece_rules rules = {.keep_case = true, .keep_accents = true, .join_chinese = true};
    pieces list;
    if (folder_is_type(normalizer, "BertNormalizer"))
        rules = rules_of(normalizer, "lowercase", "handle_chinese_chars");
    else if (json_object_get(normalizer, "type") != NULL)
        return complain(p->to, path, "normalizes text with %.40s; only BertNormalizer is known",
                        folder_type(normalizer));
    int status = list_pieces(json_object_get(json_object_get(root, "model"), "vocab"), path, &list, p->to);
    if (status == 0)
        status = create_words(p, path, (tk_list){list.count, next_piece, &list}, rules);
    free(list.by_id);
    return status;
}

static int open_json_unigram(const place *p, const json_t *root, const char *path) {
    folder_unigram u;
    int status = folder_unigram_read(&u, root, path, p->to);
    if (status == 0)
        status =
            create(p, path,
                   (tk_description){.model = {"Unigram", 7}, .tokens = folder_unigram_pieces(&u), .unigram = &u.rules});
    folder_unigram_free(&u);
    return status;
}

static int open_json(const place *p) {
    char path[PATH_MOST];
    json_t *root;
    if (text_file_json_in(p->folder, "tokenizer.json", FILE_MOST, path, &root, p->to) != 0)
        return -1;
    const json_t *model = json_object_get(root, "model");
    const int status =
        folder_is_type(model, "BPE")         ? open_json_bytes(p, root, path)
        : folder_is_type(model, "WordPiece") ? open_json_words(p, root, path)
        : folder_is_type(model, "Unigram")
            ? open_json_unigram(p, root, path)
            : complain(p->to, path, "needs a tokenizer of kind %.40s; known are WordPiece, Unigram and byte-level BPE",
                       folder_type(model));
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ any kind -- */

int folder_tokenizer(const char *folder, folder_frame frame, tk_tokenizer **t, complaint to) {
    const place at = {folder, frame, t, to}, *p = &at;
    *t = NULL;
    if (has(p, "vocab.txt"))
        return open_vocab_txt(p);
    if (has(p, "tokenizer.json"))
        return open_json(p);
    if (has(p, "vocab.json") && has(p, "merges.txt"))
        return open_merges(p);
    static const char *const sentence_pieces[] = {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
                                                  "spm.model"};
    for (size_t i = 0; i < sizeof sentence_pieces / sizeof sentence_pieces[0]; i++)
        if (has(p, sentence_pieces[i]))
            return complain(to, folder,
                            "has %s, but no tokenizer.json, which transformers makes of it: "
                            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                            sentence_pieces[i]);
    return complain(to, folder, "has no tokenizer: no vocab.txt, no tokenizer.json, no vocab.json with merges.txt");
}
