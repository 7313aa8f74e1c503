/* wordpiece.h. Unicode's tables are those of utf8proc. A text is read once, character by character, into a buffer for
 * one word; the vocabulary is a hash table with open addresses. */
#include "wordpiece.h"

#include "../regular_file.h"

#include <utf8proc.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOCABULARY_MOST = 1 << 26, /* bytes */
    WORD_MOST = 100,           /* characters */
    CHARACTER_BYTES = 4,       /* of UTF-8, at most */
    DECOMPOSED_MOST = 32,      /* characters that one becomes; 4 in today's Unicode */
    NONE = -1
};

struct wordpiece {
    char *bytes;       /* the file, with a zero after each piece */
    const char **text; /* [count] */
    int64_t count;
    int32_t *slots; /* ids or NONE; their number is a power of two, at least twice count */
    uint64_t slot_mask;
    int32_t cls, sep, unknown;
};

/* ---------------------------------------------------------------------------------------------------- vocabulary -- */

/* FNV-1a. */
static uint64_t hash(const char *prefix, const char *bytes, size_t count) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *prefix; prefix++)
        h = (h ^ (unsigned char)*prefix) * 0x100000001b3u;
    for (size_t i = 0; i < count; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot of prefix + bytes[count], or the free one where it would be. bytes hold no zero. */
static int32_t *slot_of(const wordpiece *w, const char *prefix, const char *bytes, size_t count) {
    const size_t before = strlen(prefix);
    for (uint64_t at = hash(prefix, bytes, count);; at++) {
        int32_t *slot = &w->slots[at & w->slot_mask];
        if (*slot == NONE)
            return slot;
        const char *piece = w->text[*slot];
        if (strncmp(piece, prefix, before) == 0 && strncmp(piece + before, bytes, count) == 0 &&
            piece[before + count] == 0)
            return slot;
    }
}

static int32_t find(const wordpiece *w, const char *piece) { return *slot_of(w, "", piece, strlen(piece)); }

/* Reads the whole file; its length, or -1 and a complaint. */
static int64_t read_file(wordpiece *w, const char *path, complaint to) {
    const char *why;
    FILE *file = regular_file_open(path, &why);
    long bytes = -1;
    if (file == NULL)
        return complain(to, path, "cannot be opened (%s)", why);
    if (fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
        complain(to, path, "cannot be read (%s)", strerror(errno));
    else if (bytes > VOCABULARY_MOST)
        bytes = complain(to, path, "is too large for a vocabulary: %ld bytes", bytes);
    else if ((w->bytes = malloc((size_t)bytes + 1)) == NULL)
        bytes = complain(to, path, "out of memory");
    else if (fread(w->bytes, 1, (size_t)bytes, file) != (size_t)bytes)
        bytes = complain(to, path, "cannot be read to its end");
    else if (memchr(w->bytes, 0, (size_t)bytes) != NULL)
        bytes = complain(to, path, "is no vocabulary: it holds zero bytes");
    fclose(file);
    return bytes;
}

/* Cuts the file into pieces. */
static int list_pieces(wordpiece *w, const char *path, int64_t bytes, complaint to) {
    if (bytes > 0 && w->bytes[bytes - 1] == '\n')
        bytes--;
    w->bytes[bytes] = '\n';
    int64_t lines = 0;
    for (int64_t i = 0; i <= bytes; i++)
        lines += w->bytes[i] == '\n';
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)lines)
        slots *= 2;
    w->text = malloc((size_t)lines * sizeof *w->text);
    w->slots = malloc((size_t)slots * sizeof *w->slots);
    if (w->text == NULL || w->slots == NULL)
        return complain(to, path, "out of memory");
    w->slot_mask = slots - 1;
    for (uint64_t i = 0; i < slots; i++)
        w->slots[i] = NONE;
    for (char *piece = w->bytes; w->count < lines; w->count++) {
        char *end = strchr(piece, '\n');
        *end = 0;
        int32_t *slot = slot_of(w, "", piece, (size_t)(end - piece));
        if (end == piece)
            return complain(to, path, "line %lld is empty", (long long)w->count + 1);
        if (*slot != NONE)
            return complain(to, path, "line %lld is that of line %ld again", (long long)w->count + 1, *slot + 1L);
        w->text[w->count] = piece;
        *slot = (int32_t)w->count;
        piece = end + 1;
    }
    return 0;
}

static int find_special(wordpiece *w, const char *path, complaint to) {
    const struct {
        const char *name;
        int32_t *id;
    } special[] = {{"[CLS]", &w->cls}, {"[SEP]", &w->sep}, {"[UNK]", &w->unknown}};
    for (int i = 0; i < 3; i++)
        if ((*special[i].id = find(w, special[i].name)) == NONE)
            return complain(to, path, "has no %s", special[i].name);
    return 0;
}

int wordpiece_load(const char *path, wordpiece **pieces, complaint to) {
    *pieces = NULL;
    wordpiece *w = calloc(1, sizeof *w);
    if (w == NULL)
        return complain(to, path, "out of memory");
    const int64_t bytes = read_file(w, path, to);
    if (bytes >= 0 && list_pieces(w, path, bytes, to) == 0 && find_special(w, path, to) == 0)
        return *pieces = w, 0;
    wordpiece_free(w);
    return -1;
}

void wordpiece_free(wordpiece *w) {
    if (w == NULL)
        return;
    free(w->bytes);
    free(w->text);
    free(w->slots);
    free(w);
}

int64_t wordpiece_count(const wordpiece *w) { return w->count; }

const char *wordpiece_text(const wordpiece *w, int32_t id) { return id >= 0 && id < w->count ? w->text[id] : NULL; }

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
        int32_t id = NONE;
        for (end = characters + 1; id == NONE && --end > begin;)
            id = *slot_of(r->pieces, begin > 0 ? "##" : "", r->word + r->starts[begin],
                          r->starts[end] - r->starts[begin]);
        if (id == NONE) {
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

static bool is_space(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* The replacement character stands for what could not be read; it is left out as well. */
static bool is_control(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* ASCII's symbols are punctuation, too. */
static bool is_punctuation(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
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
    const bool alone = is_chinese(c);
    if (is_space(c)) {
        end_word(r);
        return;
    }
    if (is_control(c))
        return;
    if (alone)
        end_word(r);
    const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, DECOMPOSED_MOST, UTF8PROC_DECOMPOSE, &bound);
    for (utf8proc_ssize_t i = 0; i < count && i < DECOMPOSED_MOST; i++) {
        const utf8proc_int32_t part = utf8proc_tolower(parts[i]);
        if (utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN)
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
