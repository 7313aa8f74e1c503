/* wordpiece.h. Unicode's tables are those of utf8proc. A text is read once, character by character, into a buffer for
 * one word. */
#include "wordpiece.h"

#include <utf8proc.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_MOST = 100,     /* characters */
    CHARACTER_BYTES = 4, /* of UTF-8, at most */
    DECOMPOSED_MOST = 32 /* characters that one becomes; 4 in today's Unicode */
};

struct wordpiece {
    vocabulary *pieces;
    wordpiece_rules rules;
    int32_t cls, sep, unknown;
};

static int find_special(wordpiece *w, const char *path, complaint to) {
    const struct {
        const char *name;
        int32_t *id;
    } special[] = {{w->rules.cls != NULL ? w->rules.cls : "[CLS]", &w->cls},
                   {w->rules.sep != NULL ? w->rules.sep : "[SEP]", &w->sep},
                   {"[UNK]", &w->unknown}};
    for (int i = 0; i < 3; i++)
        if ((*special[i].id = vocabulary_find(w->pieces, "", special[i].name, strlen(special[i].name))) ==
            VOCABULARY_NONE)
            return complain(to, path, "has no %s", special[i].name);
    return 0;
}

int wordpiece_create(vocabulary *pieces, wordpiece_rules rules, const char *path, wordpiece **w_out, complaint to) {
    *w_out = NULL;
    wordpiece *w = calloc(1, sizeof *w);
    if (w == NULL) {
        vocabulary_free(pieces);
        return complain(to, path, "out of memory");
    }
    w->pieces = pieces;
    w->rules = rules;
    if (find_special(w, path, to) == 0)
        return *w_out = w, 0;
    wordpiece_free(w);
    return -1;
}

int wordpiece_load(const char *path, wordpiece **pieces, complaint to) {
    vocabulary *v;
    *pieces = NULL;
    return vocabulary_load(path, &v, to) == 0 ? wordpiece_create(v, (wordpiece_rules){0}, path, pieces, to) : -1;
}

void wordpiece_free(wordpiece *w) {
    if (w == NULL)
        return;
    vocabulary_free(w->pieces);
    free(w);
}

int64_t wordpiece_count(const wordpiece *w) { return vocabulary_count(w->pieces); }

const char *wordpiece_text(const wordpiece *w, int32_t id) { return vocabulary_text(w->pieces, id); }

/* -------------------------------------------------------------------------------------------------------- tokens -- */

/* Tokens so far, and the word that is being read. */
typedef struct reading {
    const wordpiece *pieces;
    int32_t *ids;
    int64_t count, most; /* most: without [SEP] */
    char word[WORD_MOST * CHARACTER_BYTES];
    size_t starts[WORD_MOST + 1]; /* where its characters begin, and where the last ends */
    int characters;               /* WORD_MOST + 1: too many */
} reading;

static void put(reading *r, int32_t id) {
    if (r->count < r->most)
        r->ids[r->count++] = id;
}

/* Cuts the word into pieces. */
static void end_word(reading *r) {
    const int64_t first = r->count;
    int characters = r->characters;
    r->characters = 0;
    if (characters == 0)
        return;
    if (characters > WORD_MOST) {
        put(r, r->pieces->unknown);
        return;
    }
    for (int begin = 0, end; begin < characters; begin = end) {
        int32_t id = VOCABULARY_NONE;
        for (end = characters + 1; id == VOCABULARY_NONE && --end > begin;)
            id = vocabulary_find(r->pieces->pieces, begin > 0 ? "##" : "", r->word + r->starts[begin],
                                 r->starts[end] - r->starts[begin]);
        if (id == VOCABULARY_NONE) {
            r->count = first;
            put(r, r->pieces->unknown);
            return;
        }
        put(r, id);
    }
}

static void put_character(reading *r, utf8proc_int32_t c) {
    if (r->characters >= WORD_MOST) {
        r->characters = WORD_MOST + 1;
        return;
    }
    const size_t at = r->starts[r->characters++];
    r->starts[r->characters] = at + (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)r->word + at);
}

/* As PyPI's tokenizers has it, whose tables are older than utf8proc's: later characters are letters there. */
static utf8proc_category_t category_of(utf8proc_int32_t c) {
    static const utf8proc_int32_t newer[][2] = {
#include "wordpiece_newer.inc"
    };
    enum { CANADIAN_SIGN = 0x166d }; /* once punctuation, today a symbol */
    size_t low = 0, high = sizeof newer / sizeof newer[0];
    if (c == CANADIAN_SIGN)
        return UTF8PROC_CATEGORY_PO;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > newer[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof newer / sizeof newer[0] && c >= newer[low][0] ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
}

static bool is_space(utf8proc_int32_t c) {
    const utf8proc_category_t category = category_of(c);
    return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* The replacement character stands for what could not be read; it is left out as well. */
static bool is_control(utf8proc_int32_t c) {
    const utf8proc_category_t category = category_of(c);
    return c == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* ASCII's symbols are punctuation, too. */
static bool is_punctuation(utf8proc_int32_t c) {
    const utf8proc_category_t category = category_of(c);
    return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) ||
           (c < 0x80 && category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO);
}

/* The blocks that the reference implementations name: no kana, no hangul. */
static bool is_chinese(utf8proc_int32_t c) {
    static const utf8proc_int32_t blocks[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                 {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                                 {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1])
            return true;
    return false;
}

/* One character of the text, which may be several once it is decomposed. */
static void read_character(reading *r, utf8proc_int32_t c) {
    utf8proc_int32_t parts[DECOMPOSED_MOST];
    int bound = 0;
    const wordpiece_rules *rules = &r->pieces->rules;
    const bool alone = !rules->join_chinese && is_chinese(c);
    if (is_space(c)) {
        end_word(r);
        return;
    }
    if (is_control(c))
        return;
    if (alone)
        end_word(r);
    utf8proc_ssize_t count = 1;
    if (rules->keep_accents)
        parts[0] = c;
    else
        count = utf8proc_decompose_char(c, parts, DECOMPOSED_MOST, UTF8PROC_DECOMPOSE, &bound);
    for (utf8proc_ssize_t i = 0; i < count && i < DECOMPOSED_MOST; i++) {
        const utf8proc_int32_t part = rules->keep_case ? parts[i] : utf8proc_tolower(parts[i]);
        if (!rules->keep_accents && category_of(parts[i]) == UTF8PROC_CATEGORY_MN)
            continue;
        const bool mark = is_punctuation(part);
        if (mark)
            end_word(r);
        put_character(r, part);
        if (mark)
            end_word(r);
    }
    if (alone)
        end_word(r);
}

int64_t wordpiece_tokens(const wordpiece *w, const char *text, size_t bytes, int32_t *ids, int64_t most) {
    reading r = {.pieces = w, .ids = ids, .most = most - 1};
    put(&r, w->cls);
    for (size_t at = 0; at < bytes && r.count < r.most;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &c);
        at += length > 0 ? (size_t)length : 1;
        if (length > 0)
            read_character(&r, c);
    }
    end_word(&r);
    ids[r.count] = w->sep;
    return r.count + 1;
}
