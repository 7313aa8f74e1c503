/* Word pieces, as BERT's models take them (private.h). A text is read once, character by character, into a buffer for
 * one word.
 *
 * The rules are those of the reference implementations: control characters are left out; white space, punctuation and
 * each Chinese character end a word; words are taken without accents and in lower case, and cut greedily into the
 * longest pieces that the vocabulary has, "##" before all but a word's first; a word that cannot be cut so, or of more
 * than 100 characters, is [UNK]. */
#include "private.h"

#include <string.h>

enum {
    WORD_MOST = 100,     /* characters */
    CHARACTER_BYTES = 4, /* of UTF-8, at most */
    MARK_BYTES = 2       /* of "##" */
};

int tk_wordpiece_read(tk_tokenizer *t, const tk_description *d, complaint to) {
    t->wordpiece = (tk_wordpiece){*d->wordpiece, tk_find(t, "[UNK]", 5)};
    return t->wordpiece.unknown != TK_NONE ? 0 : complain(to, d->name, "its vocabulary has no [UNK]");
}

/* The word that is being read. */
typedef struct reading {
    const tk_tokenizer *t;
    tk_sink *sink;
    char word[MARK_BYTES + WORD_MOST * CHARACTER_BYTES];
    int starts[WORD_MOST + 1]; /* where its characters begin, and where the last ends */
    int characters;            /* WORD_MOST + 1: too many */
} reading;

/* The longest piece from a character on, and where it ends. "##" takes the place of what was cut off already. */
static int32_t find_piece(reading *r, int begin, int characters, int *end) {
    int from = r->starts[begin];
    int32_t id = TK_NONE;
    if (begin > 0) {
        from -= MARK_BYTES;
        memcpy(r->word + from, "##", MARK_BYTES);
    }
    for (*end = characters + 1; id == TK_NONE && --*end > begin;)
        if (r->starts[*end] - from <= r->t->texts.longest)
            id = tk_texts_find(&r->t->texts, r->word + from, r->starts[*end] - from);
    return id;
}

/* Cuts the word into pieces. */
static void end_word(reading *r) {
    int32_t ids[WORD_MOST];
    int count = 0, end;
    const int characters = r->characters;
    r->characters = 0;
    if (characters > WORD_MOST)
        ids[count++] = r->t->wordpiece.unknown;
    for (int begin = 0; characters <= WORD_MOST && begin < characters; begin = end) {
        ids[count++] = find_piece(r, begin, characters, &end);
        if (ids[count - 1] == TK_NONE) {
            ids[0] = r->t->wordpiece.unknown;
            count = 1;
            break;
        }
    }
    for (int i = 0; i < count; i++)
        tk_sink_put(r->sink, ids[i]);
}

static void put_character(reading *r, uint32_t c) {
    if (r->characters >= WORD_MOST) {
        r->characters = WORD_MOST + 1;
        return;
    }
    const int at = r->starts[r->characters++];
    r->starts[r->characters] = at + tk_put_character(c, r->word + at);
}

/* The blocks that the reference implementations name: no kana, no hangul. */
static bool is_chinese(uint32_t c) {
    static const uint32_t blocks[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                         {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1])
            return true;
    return false;
}

/* One character of the text, which may be several once it is decomposed. */
static void read_character(reading *r, uint32_t c) {
    const tk_wordpiece_rules *rules = &r->t->wordpiece.rules;
    const tk_characters *characters = rules->characters;
    const tk_kind kind = characters->kind(c);
    const bool alone = !rules->join_chinese && is_chinese(c);
    uint32_t parts[TK_PARTS_MOST] = {c};
    if (kind == TK_KIND_CONTROL)
        return;
    if (kind == TK_KIND_SPACE || alone)
        end_word(r);
    if (kind == TK_KIND_SPACE)
        return;
    const int count = rules->keep_accents ? 1 : characters->decompose(c, parts);
    for (int i = 0; i < count; i++) {
        const uint32_t part = rules->keep_case ? parts[i] : characters->lower(parts[i]);
        if (!rules->keep_accents && characters->kind(parts[i]) == TK_KIND_MARK)
            continue;
        const bool mark = characters->kind(part) == TK_KIND_PUNCTUATION;
        if (mark)
            end_word(r);
        put_character(r, part);
        if (mark)
            end_word(r);
    }
    if (alone)
        end_word(r);
}

void tk_wordpiece_encode(const tk_tokenizer *t, tk_text text, tk_sink *sink) {
    reading r = {.t = t, .sink = sink, .starts = {MARK_BYTES}};
    int length;
    for (int64_t at = 0; at < text.count && !tk_sink_full(sink); at += length) {
        uint32_t c;
        if (tk_sound_character(text.bytes + at, text.count - at, &c, &length))
            read_character(&r, c);
        else
            length = 1;
    }
    end_word(&r);
}

int64_t tk_wordpiece_decode(tk_text spelling, char *to) {
    const bool inner = spelling.count > MARK_BYTES && memcmp(spelling.bytes, "##", MARK_BYTES) == 0;
    const int64_t count = inner ? spelling.count - MARK_BYTES : spelling.count;
    if (!inner)
        to[0] = ' ';
    memcpy(to + !inner, spelling.bytes + spelling.count - count, (size_t)count);
    return count + !inner;
}
