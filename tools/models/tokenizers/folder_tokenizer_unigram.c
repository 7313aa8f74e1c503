/* The Unigram of a tokenizer.json (folder_tokenizer_private.h): normalizers, and words with U+2581 before them. */
#include "folder_tokenizer_private.h"

#include "characters.h"

#include <stdlib.h>
#include <string.h>

/* A file that is read, and where to complain. */
typedef struct reading {
    folder_unigram *u;
    const char *path;
    complaint to;
} reading;

/* Bytes of base64, to be freed; NULL: no memory, or it is none. */
static uint8_t *from_base64(const char *text, size_t length, size_t *count) {
    uint8_t *bytes = malloc(length / 4 * 3 + 3);
    uint32_t word = 0;
    *count = 0;
    for (size_t i = 0; bytes != NULL && i < length && text[i] != '='; i++) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *digit = text[i] != 0 ? strchr(digits, text[i]) : NULL;
        if (digit == NULL) {
            free(bytes);
            return NULL;
        }
        word = word << 6 | (uint32_t)(digit - digits);
        if (i % 4 > 0)
            bytes[(*count)++] = (uint8_t)(word >> (6 - 2 * (i % 4)));
    }
    return bytes;
}

static int add_step(reading *r, const json_t *normalizer) {
    tk_unigram_rules *rules = &r->u->rules;
    if (folder_is_type(normalizer, "Sequence")) {
        size_t i;
        json_t *inner;
        json_array_foreach(json_object_get(normalizer, "normalizers"), i, inner) if (add_step(r, inner) != 0) return -1;
        return 0;
    }
    if (folder_is_type(normalizer, "Precompiled") && r->u->charsmap == NULL) {
        const json_t *map = json_object_get(normalizer, "precompiled_charsmap");
        if (rules->step_count > 0)
            return complain(r->to, r->path, "has Precompiled behind another normalizer, which is not served");
        if (json_string_length(map) == 0) /* it changes nothing */
            return 0;
        r->u->charsmap = from_base64(json_string_value(map), json_string_length(map), &rules->charsmap_bytes);
        rules->charsmap = r->u->charsmap;
        return r->u->charsmap != NULL ? 0
                                      : complain(r->to, r->path, "precompiled_charsmap is no base64, or out of memory");
    }
    if (rules->step_count == TK_STEPS_MOST)
        return complain(r->to, r->path, "has more than %d normalizers", TK_STEPS_MOST);
    tk_step *s = &rules->steps[rules->step_count++];
    if (folder_is_type(normalizer, "Replace")) {
        const char *pattern = json_string_value(json_object_get(json_object_get(normalizer, "pattern"), "Regex"));
        const char *content = json_string_value(json_object_get(normalizer, "content"));
        if (pattern == NULL || strcmp(pattern, " {2,}") != 0 || content == NULL || strlen(content) >= sizeof s->content)
            return complain(r->to, r->path, "replaces another pattern than \" {2,}\", which is not served");
        strcpy(s->content, content);
        return 0;
    }
    if (folder_is_type(normalizer, "Strip")) {
        s->strips = true;
        s->left = !json_is_false(json_object_get(normalizer, "strip_left"));
        s->right = !json_is_false(json_object_get(normalizer, "strip_right"));
        return 0;
    }
    return complain(r->to, r->path,
                    "normalizes text with %.40s; known before Unigram are Precompiled, Replace and Strip",
                    folder_type(normalizer));
}

/* Metaspace, or WhitespaceSplit and Metaspace. */
static int read_words(reading *r, const json_t *before) {
    const json_t *steps = json_object_get(before, "pretokenizers");
    r->u->rules.white = folder_is_type(before, "Sequence") && json_array_size(steps) == 2 &&
                        folder_is_type(json_array_get(steps, 0), "WhitespaceSplit");
    const json_t *mark = r->u->rules.white ? json_array_get(steps, 1) : before;
    const char *scheme = json_string_value(json_object_get(mark, "prepend_scheme")),
               *replacement = json_string_value(json_object_get(mark, "replacement"));
    if (!folder_is_type(mark, "Metaspace") || replacement == NULL || strcmp(replacement, "\xe2\x96\x81") != 0 ||
        (scheme != NULL && strcmp(scheme, "always") != 0) || json_is_false(json_object_get(mark, "add_prefix_space")) ||
        json_is_false(json_object_get(mark, "split")))
        return complain(r->to, r->path,
                        "splits words by %.40s of a kind that is not served; known before Unigram are "
                        "Metaspace, before each word, and WhitespaceSplit before it",
                        folder_type(before));
    return 0;
}

static int read_pieces(const reading *r, const json_t *model) {
    folder_unigram *u = r->u;
    const json_t *unknown = json_object_get(model, "unk_id");
    u->vocab = json_object_get(model, "vocab");
    const size_t count = json_array_size(u->vocab);
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return complain(r->to, r->path, "falls back to bytes, which is not served of Unigram");
    u->scores = malloc((count + 1) * sizeof *u->scores);
    if (u->scores == NULL)
        return complain(r->to, r->path, "out of memory");
    for (size_t i = 0; i < count; i++)
        u->scores[i] = json_number_value(json_array_get(json_array_get(u->vocab, i), 1));
    u->rules.characters = &tk_characters_utf8proc;
    u->rules.scores = u->scores;
    u->rules.unknown = json_is_integer(unknown) ? (int32_t)json_integer_value(unknown) : TK_NONE;
    return 0;
}

int folder_unigram_read(folder_unigram *u, const json_t *root, const char *path, complaint to) {
    const json_t *normalizer = json_object_get(root, "normalizer");
    reading r = {u, path, to};
    *u = (folder_unigram){0};
    return (normalizer == NULL || json_is_null(normalizer) || add_step(&r, normalizer) == 0) &&
                   read_words(&r, json_object_get(root, "pre_tokenizer")) == 0
               ? read_pieces(&r, json_object_get(root, "model"))
               : -1;
}

static tk_text next_piece(void *at) {
    folder_unigram *u = at;
    const json_t *piece = json_array_get(json_array_get(u->vocab, u->at++), 0);
    return json_is_string(piece) ? (tk_text){json_string_value(piece), (int64_t)json_string_length(piece)}
                                 : (tk_text){"", 0};
}

tk_list folder_unigram_pieces(folder_unigram *u) {
    return (tk_list){(int64_t)json_array_size(u->vocab), next_piece, u};
}

void folder_unigram_free(folder_unigram *u) {
    free(u->scores);
    free(u->charsmap);
}
