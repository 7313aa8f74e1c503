/* tokenizer_unigram.h. */
#include "tokenizer_unigram.h"

#include "unigram.h"

#include <utf8proc.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 8, SPACE_BYTES = 3 };
static const char space_mark[] = "\xe2\x96\x81"; /* U+2581 */

/* A normalizer. */
typedef enum step_kind { STEP_CHARACTERS, STEP_SPACES, STEP_STRIP } step_kind;
typedef struct step {
    step_kind kind;
    bool left, right; /* STRIP */
    char content[8];  /* SPACES: what two or more become */
} step;

struct tokenizer_unigram {
    tk_unigram *pieces;
    step steps[STEPS_MOST];
    int step_count;
    bool white; /* white space of all kinds parts words, and is none of their characters; else U+0020 is U+2581 */
};

static bool is_type(const json_t *object, const char *wanted) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL && strcmp(type, wanted) == 0;
}

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL ? type : "(none)";
}

/* ------------------------------------------------------------------------------------------------------- opening -- */

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

typedef struct opening {
    tokenizer_unigram *t;
    const char *path;
    complaint to;
    uint8_t *charsmap;
    size_t charsmap_bytes;
} opening;

static int add_step(opening *o, const json_t *normalizer) {
    step *s = &o->t->steps[o->t->step_count];
    if (is_type(normalizer, "Sequence")) {
        size_t i;
        json_t *inner;
        json_array_foreach(json_object_get(normalizer, "normalizers"), i, inner) if (add_step(o, inner) != 0) return -1;
        return 0;
    }
    if (o->t->step_count == STEPS_MOST)
        return complain(o->to, o->path, "has more than %d normalizers", STEPS_MOST);
    o->t->step_count++;
    if (is_type(normalizer, "Precompiled") && o->charsmap == NULL) {
        const json_t *map = json_object_get(normalizer, "precompiled_charsmap");
        s->kind = STEP_CHARACTERS;
        if (o->t->step_count > 1)
            return complain(o->to, o->path, "has Precompiled behind another normalizer, which is not served");
        if (json_string_length(map) == 0) /* it changes nothing */
            return o->t->step_count--, 0;
        o->charsmap = from_base64(json_string_value(map), json_string_length(map), &o->charsmap_bytes);
        return o->charsmap != NULL ? 0
                                   : complain(o->to, o->path, "precompiled_charsmap is no base64, or out of memory");
    }
    if (is_type(normalizer, "Replace")) {
        const char *pattern = json_string_value(json_object_get(json_object_get(normalizer, "pattern"), "Regex"));
        const char *content = json_string_value(json_object_get(normalizer, "content"));
        s->kind = STEP_SPACES;
        if (pattern == NULL || strcmp(pattern, " {2,}") != 0 || content == NULL || strlen(content) >= sizeof s->content)
            return complain(o->to, o->path, "replaces another pattern than \" {2,}\", which is not served");
        strcpy(s->content, content);
        return 0;
    }
    if (is_type(normalizer, "Strip")) {
        s->kind = STEP_STRIP;
        s->left = !json_is_false(json_object_get(normalizer, "strip_left"));
        s->right = !json_is_false(json_object_get(normalizer, "strip_right"));
        return 0;
    }
    return complain(o->to, o->path,
                    "normalizes text with %.40s; known before Unigram are Precompiled, Replace and Strip",
                    type_of(normalizer));
}

/* Metaspace, or WhitespaceSplit and Metaspace. */
static int read_words(opening *o, const json_t *before) {
    const json_t *steps = json_object_get(before, "pretokenizers");
    o->t->white = is_type(before, "Sequence") && json_array_size(steps) == 2 &&
                  is_type(json_array_get(steps, 0), "WhitespaceSplit");
    const json_t *mark = o->t->white ? json_array_get(steps, 1) : before;
    const char *scheme = json_string_value(json_object_get(mark, "prepend_scheme")),
               *replacement = json_string_value(json_object_get(mark, "replacement"));
    if (!is_type(mark, "Metaspace") || replacement == NULL || strcmp(replacement, space_mark) != 0 ||
        (scheme != NULL && strcmp(scheme, "always") != 0) || json_is_false(json_object_get(mark, "add_prefix_space")) ||
        json_is_false(json_object_get(mark, "split")))
        return complain(o->to, o->path,
                        "splits words by %.40s of a kind that is not served; known before Unigram are "
                        "Metaspace, before each word, and WhitespaceSplit before it",
                        type_of(before));
    return 0;
}

typedef struct piece_list {
    const json_t *vocab;
    size_t at;
} piece_list;

static tk_text next_piece(void *at) {
    piece_list *p = at;
    const json_t *piece = json_array_get(json_array_get(p->vocab, p->at++), 0);
    return json_is_string(piece) ? (tk_text){json_string_value(piece), (int64_t)json_string_length(piece)}
                                 : (tk_text){"", 0};
}

static int read_pieces(opening *o, const json_t *model) {
    const json_t *vocab = json_object_get(model, "vocab"), *unknown = json_object_get(model, "unk_id");
    const size_t count = json_array_size(vocab);
    piece_list list = {vocab, 0};
    double *scores = malloc((count + 1) * sizeof *scores);
    if (scores == NULL)
        return complain(o->to, o->path, "out of memory");
    for (size_t i = 0; i < count; i++)
        scores[i] = json_number_value(json_array_get(json_array_get(vocab, i), 1));
    const tk_unigram_description d = {.name = o->path,
                                      .tokens = {(int64_t)count, next_piece, &list},
                                      .scores = scores,
                                      .unknown =
                                          json_is_integer(unknown) ? (int32_t)json_integer_value(unknown) : TK_NONE,
                                      .charsmap = o->charsmap,
                                      .charsmap_bytes = o->charsmap_bytes};
    const int status = json_is_true(json_object_get(model, "byte_fallback"))
                           ? complain(o->to, o->path, "falls back to bytes, which is not served of Unigram")
                           : tk_unigram_create(&d, &o->t->pieces, o->to);
    free(scores);
    return status;
}

int tokenizer_unigram_open(const json_t *root, const char *path, tokenizer_unigram **t_out, complaint to) {
    const json_t *normalizer = json_object_get(root, "normalizer");
    opening o = {.t = calloc(1, sizeof *o.t), .path = path, .to = to};
    *t_out = NULL;
    if (o.t == NULL)
        return complain(to, path, "out of memory");
    int status = normalizer == NULL || json_is_null(normalizer) ? 0 : add_step(&o, normalizer);
    if (status == 0)
        status = read_words(&o, json_object_get(root, "pre_tokenizer"));
    if (status == 0)
        status = read_pieces(&o, json_object_get(root, "model"));
    free(o.charsmap);
    if (status == 0)
        *t_out = o.t;
    else
        tokenizer_unigram_close(o.t);
    return status;
}

void tokenizer_unigram_close(tokenizer_unigram *t) {
    if (t == NULL)
        return;
    tk_unigram_free(t->pieces);
    free(t);
}

int32_t tokenizer_unigram_find(const tokenizer_unigram *t, const char *piece) {
    return tk_unigram_find(t->pieces, piece, (int64_t)strlen(piece));
}

const char *tokenizer_unigram_text(const tokenizer_unigram *t, int32_t id) {
    return tk_unigram_spelling(t->pieces, id);
}

/* -------------------------------------------------------------------------------------------------------- tokens -- */

static bool breaks(uint32_t before, uint32_t behind, int32_t *state) {
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)behind, state);
}

static bool never_inside(uint32_t before, uint32_t behind, int32_t *state) {
    (void)before, (void)behind, (void)state;
    return true;
}

/* The bytes of white space at a place; 0: there is none. */
static int64_t white_at(const char *text, int64_t bytes) {
    utf8proc_int32_t c;
    const utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, bytes, &c);
    const bool white = length > 0 && ((c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
                                      (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                                      c == 0x205f || c == 0x3000);
    return white ? length : 0;
}

static void strip(const step *s, char *text, int64_t *count) {
    int64_t begin = 0, end = *count, length;
    while (s->left && begin < end && (length = white_at(text + begin, end - begin)) > 0)
        begin += length;
    while (s->right && end > begin) {
        int64_t at = end - 1;
        while (at > begin && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        if (white_at(text + at, end - at) != end - at)
            break;
        end = at;
    }
    memmove(text, text + begin, (size_t)(end - begin));
    *count = end - begin;
    text[*count] = 0;
}

/* Two or more spaces become the content. NULL: no memory; frees text. */
static char *join_spaces(const step *s, char *text, int64_t *count) {
    const size_t length = strlen(s->content);
    char *joined = malloc((size_t)*count * 4 + 1); /* two spaces become at most 7 bytes */
    int64_t n = 0;
    for (int64_t at = 0, end; joined != NULL && at < *count; at = end) {
        for (end = at; end < *count && text[end] == ' ';)
            end++;
        if (end - at >= 2) {
            memcpy(joined + n, s->content, length);
            n += (int64_t)length;
        } else {
            end = at + 1;
            joined[n++] = text[at];
        }
    }
    free(text);
    if (joined != NULL) {
        joined[n] = 0;
        *count = n;
    }
    return joined;
}

static char *normalize(const tokenizer_unigram *t, const char *text, size_t bytes, int64_t *count) {
    bool first = true; /* what is no UTF-8 has to go in any case */
    char *plain = NULL;
    for (int i = 0; i < t->step_count || first; i++) {
        const step *s = i < t->step_count ? &t->steps[i] : NULL;
        if (first) {
            const bool characters = s != NULL && s->kind == STEP_CHARACTERS;
            plain = tk_unigram_normalize(t->pieces, text, (int64_t)bytes, characters ? breaks : never_inside, count);
            first = false;
            if (plain == NULL || s == NULL || characters)
                continue;
        }
        if (plain == NULL)
            break;
        if (s->kind == STEP_STRIP)
            strip(s, plain, count);
        else
            plain = join_spaces(s, plain, count);
    }
    return plain;
}

/* Where U+2581 begins next, or the end. */
static int64_t next_mark(const char *text, int64_t at, int64_t end) {
    while (at + SPACE_BYTES <= end && memcmp(text + at, space_mark, SPACE_BYTES) != 0)
        at++;
    return at + SPACE_BYTES <= end ? at : end;
}

/* Words of marked text, each of which begins with its mark. */
static int64_t put_words(const tokenizer_unigram *t, const char *text, int64_t bytes, int32_t *ids, int64_t most) {
    int64_t count = 0;
    for (int64_t at = 0, end; at < bytes && count < most; at = end) {
        end = next_mark(text, at + 1, bytes);
        const int64_t tokens = tk_unigram_word(t->pieces, text + at, end - at, ids + count, most - count);
        if (tokens < 0)
            return -1;
        count += tokens < most - count ? tokens : most - count;
    }
    return count;
}

int64_t tokenizer_unigram_tokens(const tokenizer_unigram *t, const char *text, size_t bytes, int32_t *ids,
                                 int64_t most) {
    int64_t count = 0, n = 0;
    char *plain = normalize(t, text, bytes, &count);
    char *marked = plain != NULL ? malloc((size_t)count * (SPACE_BYTES + 1) + SPACE_BYTES + 1) : NULL;
    if (marked == NULL) {
        free(plain);
        return -1;
    }
    bool begins = true; /* a word, or the text */
    for (int64_t at = 0, length; at < count; at += length) {
        const int64_t white = t->white ? white_at(plain + at, count - at) : 0;
        const bool is_mark = count - at >= SPACE_BYTES && memcmp(plain + at, space_mark, SPACE_BYTES) == 0;
        length = white > 0 ? white : is_mark ? SPACE_BYTES : 1;
        const bool space = !t->white && plain[at] == ' ';
        if (white == 0 && (space || (begins && !is_mark))) {
            memcpy(marked + n, space_mark, SPACE_BYTES);
            n += SPACE_BYTES;
        }
        if (white == 0 && !space) {
            memcpy(marked + n, plain + at, (size_t)length);
            n += length;
        }
        begins = white > 0;
    }
    const int64_t tokens = put_words(t, marked, n, ids, most);
    free(marked);
    free(plain);
    return tokens;
}
