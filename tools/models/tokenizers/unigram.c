/* unigram.h. The best pieces up to each place of a word are found from left to right (Viterbi). The table of characters is
 * a double array (Darts): units of 32 bits, each with the byte that leads to it, where its children are, and whether one
 * of them is a value, the place of the new text behind the array. */
#include "unigram.h"
#include "private.h"

#include <stdlib.h>
#include <string.h>

static const double unknown_penalty = 10.0; /* below the least score */

struct tk_unigram {
    tk_texts texts;
    double *scores;
    double unknown_score;
    int32_t unknown;
    uint32_t *units; /* of the table; NULL: there is none */
    size_t unit_count;
    char *replaced; /* texts of the table, with a zero behind the last */
    size_t replaced_bytes;
};

static int read_charsmap(tk_unigram *u, const tk_unigram_description *d, complaint to) {
    if (d->charsmap == NULL)
        return 0;
    if (d->charsmap_bytes < 4)
        return complain(to, d->name, "its table of characters is cut off");
    const uint8_t *b = d->charsmap;
    const size_t size = (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    if (size % 4 != 0 || size == 0 || size > d->charsmap_bytes - 4)
        return complain(to, d->name, "its table of characters is no double array");
    u->unit_count = size / 4;
    u->replaced_bytes = d->charsmap_bytes - 4 - size;
    u->units = malloc(size);
    u->replaced = calloc(u->replaced_bytes + 1, 1);
    if (u->units == NULL || u->replaced == NULL)
        return complain(to, d->name, "out of memory");
    for (size_t i = 0; i < u->unit_count; i++) {
        const uint8_t *unit = b + 4 + 4 * i;
        u->units[i] = (uint32_t)unit[0] | (uint32_t)unit[1] << 8 | (uint32_t)unit[2] << 16 | (uint32_t)unit[3] << 24;
    }
    memcpy(u->replaced, b + 4 + size, u->replaced_bytes);
    return 0;
}

int tk_unigram_create(const tk_unigram_description *d, tk_unigram **u_out, complaint to) {
    *u_out = NULL;
    tk_unigram *u = calloc(1, sizeof *u);
    if (u == NULL)
        return complain(to, d->name, "out of memory");
    int status = tk_texts_read(&u->texts, &d->tokens, d->name, to);
    if (status == 0 && (d->unknown < 0 || d->unknown >= d->tokens.count))
        status = complain(to, d->name, "its unknown token %ld is none of its %lld tokens", (long)d->unknown,
                          (long long)d->tokens.count);
    if (status == 0)
        status = read_charsmap(u, d, to);
    if (status == 0 && (u->scores = malloc((size_t)d->tokens.count * sizeof *u->scores)) == NULL)
        status = complain(to, d->name, "out of memory");
    double least = 0.0;
    for (int64_t i = 0; status == 0 && i < d->tokens.count; i++) {
        u->scores[i] = d->scores[i];
        least = i == 0 || d->scores[i] < least ? d->scores[i] : least;
        if (!(d->scores[i] > -1e30 && d->scores[i] < 1e30))
            status = complain(to, d->name, "the score of token %lld is %g", (long long)i, d->scores[i]);
    }
    u->unknown = d->unknown;
    u->unknown_score = least - unknown_penalty;
    if (status == 0)
        *u_out = u;
    else
        tk_unigram_free(u);
    return status;
}

void tk_unigram_free(tk_unigram *u) {
    if (u == NULL)
        return;
    tk_texts_free(&u->texts);
    free(u->scores);
    free(u->units);
    free(u->replaced);
    free(u);
}

int32_t tk_unigram_find(const tk_unigram *u, const char *piece, int64_t bytes) {
    return tk_texts_find(&u->texts, piece, bytes);
}

const char *tk_unigram_spelling(const tk_unigram *u, int32_t id) {
    return id >= 0 && id < u->texts.count ? tk_texts_at(&u->texts, id).bytes : NULL;
}

/* --------------------------------------------------------------------------------------------------- normalizing -- */

static size_t children_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* What the shortest beginning of a text that the table has becomes; NULL: it has none. */
static const char *replaced(const tk_unigram *u, const char *text, int64_t bytes) {
    if (u->units == NULL)
        return NULL;
    size_t at = children_of(u->units[0]);
    for (int64_t i = 0; i < bytes; i++) {
        const uint32_t byte = (unsigned char)text[i];
        at ^= byte;
        if (byte == 0 || at >= u->unit_count || (u->units[at] & (1u << 31 | 0xff)) != byte)
            return NULL;
        const uint32_t unit = u->units[at];
        at ^= children_of(unit);
        if (unit >> 8 & 1) {
            const size_t place = at < u->unit_count ? u->units[at] & 0x7fffffff : SIZE_MAX;
            return place <= u->replaced_bytes ? u->replaced + place : NULL;
        }
    }
    return NULL;
}

typedef struct plain {
    char *bytes;
    int64_t count, room;
} plain;

static bool add(plain *p, const char *bytes, int64_t count) {
    if (p->count + count + 1 > p->room) {
        char *more = realloc(p->bytes, (size_t)(p->room = 2 * (p->count + count) + 64));
        if (more == NULL)
            return false;
        p->bytes = more;
    }
    memcpy(p->bytes + p->count, bytes, (size_t)count);
    p->count += count;
    p->bytes[p->count] = 0;
    return true;
}

static bool add_grapheme(const tk_unigram *u, plain *p, const char *text, int64_t bytes) {
    enum { LONGEST = 5 }; /* bytes of a grapheme that is looked up as a whole */
    const char *as = bytes <= LONGEST ? replaced(u, text, bytes) : NULL;
    if (as != NULL)
        return add(p, as, (int64_t)strlen(as));
    for (int64_t at = 0; at < bytes;) {
        uint32_t code;
        int length;
        tk_character(text + at, bytes - at, &code, &length);
        as = replaced(u, text + at, length);
        if (!(as != NULL ? add(p, as, (int64_t)strlen(as)) : add(p, text + at, length)))
            return false;
        at += length;
    }
    return true;
}

char *tk_unigram_normalize(const tk_unigram *u, const char *text, int64_t bytes, tk_grapheme_break *breaks,
                           int64_t *count) {
    plain clean = {0}, p = {0};
    uint32_t before = 0, code;
    int32_t state = 0;
    int length;
    int64_t begin = 0;
    bool memory = add(&clean, "", 0) && add(&p, "", 0);
    for (int64_t at = 0; memory && at < bytes; at += length) /* what is no UTF-8 first, as it ends no grapheme */
        if (tk_sound_character(text + at, bytes - at, &code, &length))
            memory = add(&clean, text + at, length);
        else
            length = 1;
    for (int64_t at = 0; memory && at < clean.count; at += length) {
        tk_character(clean.bytes + at, clean.count - at, &code, &length);
        if (at > 0 && breaks(before, code, &state)) {
            memory = add_grapheme(u, &p, clean.bytes + begin, at - begin);
            begin = at;
        }
        before = code;
    }
    memory = memory && add_grapheme(u, &p, clean.bytes + begin, clean.count - begin);
    free(clean.bytes);
    if (!memory) {
        free(p.bytes);
        return NULL;
    }
    *count = p.count;
    return p.bytes;
}

/* -------------------------------------------------------------------------------------------------------- pieces -- */

/* The best way to a place: its score, its last piece, and where that begins; begin -1: there is none yet. */
typedef struct node {
    double score;
    int32_t id;
    int64_t begin;
} node;

static void reach(node *to, double score, int32_t id, int64_t begin) {
    if (to->begin < 0 || score > to->score)
        *to = (node){score, id, begin};
}

int64_t tk_unigram_word(const tk_unigram *u, const char *word, int64_t bytes, int32_t *ids, int64_t most) {
    node *nodes = malloc((size_t)(bytes + 1) * sizeof *nodes);
    if (nodes == NULL)
        return TK_NO_MEMORY;
    for (int64_t i = 0; i <= bytes; i++)
        nodes[i] = (node){0.0, TK_NONE, -1};
    for (int64_t at = 0; at < bytes;) {
        uint32_t code;
        int length;
        bool single = false;
        if (!tk_character(word + at, bytes - at, &code, &length)) /* what a table of characters made */
            length = 1;
        const double score = nodes[at].score;
        const int64_t longest = bytes - at < u->texts.longest ? bytes - at : u->texts.longest;
        for (int64_t n = 1; n <= longest; n++) {
            const int32_t id = tk_texts_find(&u->texts, word + at, n);
            if (id == TK_NONE)
                continue;
            reach(&nodes[at + n], u->scores[id] + score, id, at);
            single = single || n == length;
        }
        if (!single)
            reach(&nodes[at + length], u->unknown_score + score, u->unknown, at);
        at += length;
    }
    int64_t count = 0; /* from the end: what is unknown in a row is one */
    for (int64_t at = bytes, last = TK_NONE; at > 0; last = nodes[at].id, at = nodes[at].begin)
        count += !(nodes[at].id == u->unknown && last == u->unknown);
    int64_t place = count;
    for (int64_t at = bytes, last = TK_NONE; at > 0; last = nodes[at].id, at = nodes[at].begin) {
        if (nodes[at].id == u->unknown && last == u->unknown)
            continue;
        if (--place < most)
            ids[place] = nodes[at].id;
    }
    free(nodes);
    return count;
}
