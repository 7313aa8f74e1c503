/* tokenizer.h. */
#include "tokenizer.h"

#include "characters.h"
#include "text_file.h"
#include "tokenizer_unigram.h"
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_MOST = 4096, FILE_MOST = 1 << 28 };

struct tokenizer {
    tk_tokenizer *pieces; /* or unigram */
    tokenizer_unigram *unigram;
    int32_t first, last; /* of the frame; TK_NONE: none */
    bool is_bpe;         /* pieces are of bytes, not of words */
    bool space_first;    /* a text begins with a space, as if a word came before it */
};

/* Files of a folder. */
typedef struct place {
    const char *folder;
    tokenizer_frame frame;
    complaint to;
} place;

/* Returns 0, or -1 after a complaint. */
static int name_file(const place *p, const char *name, char path[PATH_MOST]) {
    return snprintf(path, PATH_MOST, "%s/%s", p->folder, name) < PATH_MOST
               ? 0
               : complain(p->to, "tokenizer", "the model's folder has too long a name");
}

static bool has(const place *p, const char *name) {
    char path[PATH_MOST];
    return name_file(p, name, path) == 0 && access(path, F_OK) == 0;
}

/* A flag of an object; otherwise, if it is absent or null. */
static bool flag(const json_t *object, const char *name, bool otherwise) {
    const json_t *value = json_object_get(object, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static int find_special(const tokenizer *t, const place *p, const char *path, const char *name, int32_t *id) {
    *id = t->unigram ? tokenizer_unigram_find(t->unigram, name) : tk_find(t->pieces, name, (int64_t)strlen(name));
    return *id != TK_NONE ? 0 : complain(p->to, path, "its vocabulary has no %s", name);
}

/* The special tokens that the frame asks for. MPNet has RoBERTa's frame about BERT's pieces. */
static int find_frame(tokenizer *t, const place *p, const char *path) {
    const bool words = t->unigram == NULL && !t->is_bpe;
    if (words || p->frame == TOKENIZER_BOTH) {
        const bool cls = words && p->frame != TOKENIZER_BOTH;
        return find_special(t, p, path, cls ? "[CLS]" : "<s>", &t->first) == 0
                   ? find_special(t, p, path, cls ? "[SEP]" : "</s>", &t->last)
                   : -1;
    }
    return p->frame == TOKENIZER_FIRST ? find_special(t, p, path, "</s>", &t->first) : 0;
}

/* ----------------------------------------------------------------------------------------------------- WordPiece -- */

static tk_wordpiece_rules rules_of(const json_t *object, const char *lower_case, const char *chinese) {
    const bool lower = flag(object, lower_case, true);
    return (tk_wordpiece_rules){.keep_case = !lower,
                                .keep_accents = !flag(object, "strip_accents", lower),
                                .join_chinese = !flag(object, chinese, true)};
}

/* Frees v. */
static int open_words(tokenizer *t, const place *p, vocabulary *v, tk_wordpiece_rules rules, const char *path) {
    rules.characters = &tk_characters_utf8proc;
    const tk_description d = {.name = path,
                              .model = {"WordPiece", 9},
                              .tokens = vocabulary_list(v),
                              .bos = TK_NONE,
                              .eos = TK_NONE,
                              .wordpiece = &rules};
    const int status = tk_create(&d, &t->pieces, p->to) == 0 ? find_frame(t, p, path) : -1;
    vocabulary_free(v);
    return status;
}

/* vocab.txt, with what tokenizer_config.json says of it. */
static int open_vocab_txt(tokenizer *t, const place *p) {
    char path[PATH_MOST], config_path[PATH_MOST];
    json_t *config;
    vocabulary *v;
    if (name_file(p, "vocab.txt", path) != 0 || name_file(p, "tokenizer_config.json", config_path) != 0 ||
        text_file_json(config_path, FILE_MOST, &config, p->to) != 0)
        return -1;
    const tk_wordpiece_rules rules = rules_of(config, "do_lower_case", "tokenize_chinese_chars");
    json_decref(config);
    return vocabulary_load(path, &v, p->to) == 0 ? open_words(t, p, v, rules, path) : -1;
}

/* ----------------------------------------------------------------------------------------------------------- BPE -- */

/* Byte-level BPE; frees v. types: tk_type by id, or NULL. */
static int open_bytes(tokenizer *t, const place *p, vocabulary *v, const char *rule, const int32_t *types,
                      tk_list merges, const char *path) {
    const tk_description d = {.name = path,
                              .model = {"gpt2", 4},
                              .pre = {rule, (int64_t)strlen(rule)},
                              .tokens = vocabulary_list(v),
                              .merges = merges,
                              .types = types,
                              .bos = TK_NONE,
                              .eos = TK_NONE};
    t->is_bpe = true;
    const int status = tk_create(&d, &t->pieces, p->to) == 0 ? find_frame(t, p, path) : -1;
    vocabulary_free(v);
    return status;
}

/* Merges of a tokenizer.json: each a text, "Ġ t", or a pair of texts. What is neither is no merge, and refused. */
typedef struct json_merges {
    const json_t *list;
    size_t at;
    char pair[2 * PATH_MOST];
} json_merges;

static tk_text next_json(void *at) {
    json_merges *m = at;
    const json_t *merge = json_array_get(m->list, m->at++);
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (json_is_string(merge))
        return (tk_text){json_string_value(merge), (int64_t)json_string_length(merge)};
    const int length = left != NULL && right != NULL ? snprintf(m->pair, sizeof m->pair, "%s %s", left, right) : 0;
    return (tk_text){m->pair, length < (int)sizeof m->pair ? length : 0};
}

/* merges.txt: one on a line, behind a line of comment; empty lines are nothing. */
typedef struct text_merges {
    const char *text, *at;
} text_merges;

static tk_text next_line(void *at) {
    text_merges *m = at;
    while (*m->at) {
        const char *line = m->at;
        size_t length = strcspn(line, "\n");
        m->at += length + (line[length] == '\n');
        length -= length > 0 && line[length - 1] == '\r';
        if (length > 0 && !(line == m->text && line[0] == '#'))
            return (tk_text){line, (int64_t)length};
    }
    return (tk_text){"", 0};
}

static int64_t count_lines(const char *text) {
    text_merges m = {text, text};
    int64_t lines = 0;
    while (next_line(&m).count > 0)
        lines++;
    return lines;
}

static int open_merges(tokenizer *t, const place *p) {
    char path[PATH_MOST], merges_path[PATH_MOST];
    json_t *pieces;
    vocabulary *v;
    int64_t bytes;
    if (name_file(p, "vocab.json", path) != 0 || name_file(p, "merges.txt", merges_path) != 0 ||
        text_file_json(path, FILE_MOST, &pieces, p->to) != 0)
        return -1;
    const int status = vocabulary_from_json(path, pieces, &v, p->to);
    json_decref(pieces);
    if (status != 0)
        return -1;
    char *text = text_file_read(merges_path, FILE_MOST, &bytes, p->to);
    if (text == NULL) {
        vocabulary_free(v);
        return -1;
    }
    text_merges merges = {text, text};
    const int opened = open_bytes(t, p, v, "gpt-2", NULL, (tk_list){count_lines(text), next_line, &merges}, path);
    free(text);
    return opened;
}

/* ------------------------------------------------------------------------------------------------ tokenizer.json -- */

static bool is_type(const json_t *object, const char *wanted) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL && strcmp(type, wanted) == 0;
}

/* Does the text come to BPE as bytes, cut by GPT-2's rule alone, or (digits) at each digit before? */
static bool is_byte_level(const json_t *root, bool *digits) {
    const json_t *before = json_object_get(root, "pre_tokenizer"), *steps = json_object_get(before, "pretokenizers");
    const json_t *normalizer = json_object_get(root, "normalizer"), *first = json_array_get(steps, 0);
    *digits = is_type(before, "Sequence") && json_array_size(steps) == 2 && is_type(first, "Digits") &&
              flag(first, "individual_digits", false);
    if (*digits)
        before = json_array_get(steps, 1);
    return is_type(before, "ByteLevel") && (normalizer == NULL || json_is_null(normalizer)) &&
           flag(before, "use_regex", true);
}

/* tk_type of each piece, to be freed: those of added_tokens are special or cut out of texts. NULL: no memory. */
static int32_t *added_types(const json_t *root, vocabulary *v) {
    const int64_t count = vocabulary_list(v).count;
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

static int open_json_bpe(tokenizer *t, const place *p, const json_t *root, const char *path) {
    const json_t *model = json_object_get(root, "model"), *merges = json_object_get(model, "merges");
    vocabulary *v;
    bool digits;
    if (!is_byte_level(root, &digits))
        return complain(p->to, path, "splits words by an unknown rule; known is byte-level BPE, like GPT-2's");
    if (vocabulary_from_json(path, json_object_get(model, "vocab"), &v, p->to) != 0)
        return -1;
    json_merges list = {merges, 0, ""};
    int32_t *types = added_types(root, v);
    t->space_first = !digits && flag(json_object_get(root, "pre_tokenizer"), "add_prefix_space", false);
    if (types == NULL) {
        vocabulary_free(v);
        return complain(p->to, path, "out of memory");
    }
    const int status = open_bytes(t, p, v, digits ? "smollm" : "gpt-2", types,
                                  (tk_list){(int64_t)json_array_size(merges), next_json, &list}, path);
    free(types);
    return status;
}

static int open_json_words(tokenizer *t, const place *p, const json_t *root, const char *path) {
    const json_t *normalizer = json_object_get(root, "normalizer");
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    tk_wordpiece_rules rules = {.keep_case = true, .keep_accents = true, .join_chinese = true};
    vocabulary *v;
    if (type != NULL && strcmp(type, "BertNormalizer") == 0)
        rules = rules_of(normalizer, "lowercase", "handle_chinese_chars");
    else if (type != NULL)
        return complain(p->to, path, "normalizes text with %.40s; only BertNormalizer is known", type);
    return vocabulary_from_json(path, json_object_get(json_object_get(root, "model"), "vocab"), &v, p->to) == 0
               ? open_words(t, p, v, rules, path)
               : -1;
}

static int open_json(tokenizer *t, const place *p) {
    char path[PATH_MOST];
    json_t *root;
    if (name_file(p, "tokenizer.json", path) != 0 || text_file_json(path, FILE_MOST, &root, p->to) != 0)
        return -1;
    const json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    int status = -1;
    if (type != NULL && strcmp(type, "BPE") == 0)
        status = open_json_bpe(t, p, root, path);
    else if (type != NULL && strcmp(type, "WordPiece") == 0)
        status = open_json_words(t, p, root, path);
    else if (type != NULL && strcmp(type, "Unigram") == 0)
        status = tokenizer_unigram_open(root, path, &t->unigram, p->to) == 0 ? find_frame(t, p, path) : -1;
    else
        complain(p->to, path, "needs a tokenizer of kind %.40s; known are WordPiece, Unigram and byte-level BPE",
                 type != NULL ? type : "(none)");
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ any kind -- */

static int open_any(tokenizer *t, const place *p) {
    if (has(p, "vocab.txt"))
        return open_vocab_txt(t, p);
    if (has(p, "tokenizer.json"))
        return open_json(t, p);
    if (has(p, "vocab.json") && has(p, "merges.txt"))
        return open_merges(t, p);
    static const char *const sentence_pieces[] = {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
                                                  "spm.model"};
    for (size_t i = 0; i < sizeof sentence_pieces / sizeof sentence_pieces[0]; i++)
        if (has(p, sentence_pieces[i]))
            return complain(p->to, p->folder,
                            "has %s, but no tokenizer.json, which transformers makes of it: "
                            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                            sentence_pieces[i]);
    return complain(p->to, p->folder,
                    "has no tokenizer: no vocab.txt, no tokenizer.json, no vocab.json with merges.txt");
}

int tokenizer_open(const char *folder, tokenizer_frame frame, tokenizer **t_out, complaint to) {
    const place p = {folder, frame, to};
    *t_out = NULL;
    tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return complain(to, folder, "out of memory");
    t->first = t->last = TK_NONE;
    if (open_any(t, &p) == 0)
        return *t_out = t, 0;
    tokenizer_close(t);
    return -1;
}

void tokenizer_close(tokenizer *t) {
    if (t == NULL)
        return;
    tk_free(t->pieces);
    tokenizer_unigram_close(t->unigram);
    free(t);
}

int64_t tokenizer_tokens(const tokenizer *t, const char *text, size_t bytes, int32_t *ids, int64_t most) {
    int64_t count = 0;
    if (t->first != TK_NONE)
        ids[count++] = t->first;
    const int64_t room = most - (t->last != TK_NONE);
    char *spaced = t->space_first && bytes > 0 && text[0] != ' ' ? malloc(bytes + 1) : NULL;
    if (spaced != NULL) {
        spaced[0] = ' ';
        memcpy(spaced + 1, text, bytes);
        text = spaced;
        bytes++;
    } else if (t->space_first && bytes > 0 && text[0] != ' ')
        return -1;
    const int64_t inner = t->unigram != NULL
                              ? tokenizer_unigram_tokens(t->unigram, text, bytes, ids + count, room - count)
                              : tk_encode(t->pieces, text, (int64_t)bytes, 0, ids + count, room - count);
    free(spaced);
    if (inner < 0)
        return -1;
    count += inner < room - count ? inner : room - count;
    if (t->last != TK_NONE)
        ids[count++] = t->last;
    return count;
}

const tk_tokenizer *tokenizer_bpe(const tokenizer *t) { return t->is_bpe ? t->pieces : NULL; }

const char *tokenizer_text(const tokenizer *t, int32_t id) {
    return t->unigram != NULL ? tokenizer_unigram_text(t->unigram, id) : tk_spelling(t->pieces, id);
}

int32_t tokenizer_cls(const tokenizer *t) { return t->first; }

int32_t tokenizer_sep(const tokenizer *t) { return t->last; }
