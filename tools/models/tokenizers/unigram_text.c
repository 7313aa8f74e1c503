/* Texts of Unigram before they are cut into pieces (private.h), as PyPI's tokenizers has them: characters are exchanged
 * by SentencePiece's table (precompiled_charsmap), whole graphemes of less than 6 bytes first, then characters; then
 * come the other normalizers. The table is a double array (Darts): units of 32 bits, each with the byte that leads to
 * it, where its children are, and whether one of them is a value, the place of the new text behind the array. It is
 * untrusted. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

int tk_unigram_read_charsmap(tk_unigram *u, const char *name, complaint to) {
    const tk_unigram_rules *d = &u->rules;
    if (d->charsmap == NULL)
        return 0;
    if (d->charsmap_bytes < 4)
        return complain(to, name, "its table of characters is cut off");
    const uint8_t *b = d->charsmap;
    const size_t size = (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    if (size % 4 != 0 || size == 0 || size > d->charsmap_bytes - 4)
        return complain(to, name, "its table of characters is no double array");
    u->unit_count = size / 4;
    u->replaced_bytes = d->charsmap_bytes - 4 - size;
    u->units = malloc(size);
    u->replaced = calloc(u->replaced_bytes + 1, 1);
    if (u->units == NULL || u->replaced == NULL)
        return complain(to, name, "out of memory");
    for (size_t i = 0; i < u->unit_count; i++) {
        const uint8_t *unit = b + 4 + 4 * i;
        u->units[i] = (uint32_t)unit[0] | (uint32_t)unit[1] << 8 | (uint32_t)unit[2] << 16 | (uint32_t)unit[3] << 24;
    }
    memcpy(u->replaced, b + 4 + size, u->replaced_bytes);
    return 0;
}

static size_t children_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* The replacement of the shortest beginning of a text that the table has; NULL: it has none. */
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

/* The text with characters exchanged, bytes that are no UTF-8 left out, and a zero behind it. NULL: no memory. */
static char *exchange(const tk_unigram *u, const char *text, int64_t bytes, int64_t *count) {
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
        if (at > 0 && (u->units == NULL || u->rules.characters->breaks(before, code, &state))) {
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

/* The bytes of white space at a place; 0: there is none. */
int64_t tk_white_at(const char *text, int64_t bytes) {
    uint32_t c;
    int length;
    const bool white =
        tk_sound_character(text, bytes, &c, &length) &&
        ((c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000);
    return white ? length : 0;
}

static void strip(const tk_step *s, char *text, int64_t *count) {
    int64_t begin = 0, end = *count, length;
    while (s->left && begin < end && (length = tk_white_at(text + begin, end - begin)) > 0)
        begin += length;
    while (s->right && end > begin) {
        int64_t at = end - 1;
        while (at > begin && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        if (tk_white_at(text + at, end - at) != end - at)
            break;
        end = at;
    }
    memmove(text, text + begin, (size_t)(end - begin));
    *count = end - begin;
    text[*count] = 0;
}

/* Two or more spaces become the content. NULL: no memory; frees text. */
static char *join_spaces(const tk_step *s, char *text, int64_t *count) {
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

char *tk_unigram_normalize(const tk_unigram *u, const char *text, int64_t bytes, int64_t *count) {
    char *normal = exchange(u, text, bytes, count);
    for (int i = 0; normal != NULL && i < u->rules.step_count; i++) {
        const tk_step *s = &u->rules.steps[i];
        if (s->strips)
            strip(s, normal, count);
        else
            normal = join_spaces(s, normal, count);
    }
    return normal;
}
