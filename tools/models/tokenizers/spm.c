/* SentencePiece's BPE (private.h): the characters of a text, with U+2581 in the place of spaces, are joined as long
 * as two neighbours together are a token, that of the highest score first. Characters that are no token become
 * bytes. */
#include "private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char space[] = "\xe2\x96\x81";
enum { SPACE_BYTES = 3 };

static bool is_space(const char *bytes, int64_t count) {
    return count == SPACE_BYTES && memcmp(bytes, space, SPACE_BYTES) == 0;
}

/* The order of floats, the largest first, as integers. */
static uint32_t rank_of(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 1u << 31);
}

static bool has_inner_space(tk_text text) {
    for (int64_t i = 1; i + SPACE_BYTES <= text.count; i++)
        if (is_space(text.bytes + i, SPACE_BYTES) && !(i >= SPACE_BYTES && is_space(text.bytes + i - SPACE_BYTES, 3)))
            return true;
    return false;
}

static int find_bytes(tk_tokenizer *t, const char *name, complaint to) {
    static const char hex[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; byte++) {
        const char spelling[] = {'<', '0', 'x', hex[byte / 16], hex[byte % 16], '>'}, raw = (char)byte;
        int32_t id = tk_texts_find(&t->texts, spelling, sizeof spelling);
        if (id == TK_NONE)
            id = tk_texts_find(&t->texts, &raw, 1);
        if (id == TK_NONE)
            return complain(to, name,
                            "its vocabulary has no token <0x%02X>: SentencePiece is served with byte fallback",
                            (unsigned)byte);
        t->spm.byte_ids[byte] = id;
    }
    return 0;
}

int tk_spm_read(tk_tokenizer *t, const tk_description *d, complaint to) {
    const int64_t count = t->texts.count;
    tk_spm *spm = &t->spm;
    if (d->scores == NULL)
        return complain(to, d->name, "its vocabulary has no scores");
    spm->ranks = malloc((size_t)count * sizeof *spm->ranks);
    if (spm->ranks == NULL)
        return complain(to, d->name, "out of memory");
    spm->split = true;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(d->scores[i]))
            return complain(to, d->name, "the score of token %lld is not a number", (long long)i);
        spm->ranks[i] = rank_of(d->scores[i]);
        spm->split = spm->split && !has_inner_space(tk_texts_at(&t->texts, (int32_t)i));
    }
    return find_bytes(t, d->name, to);
}

void tk_spm_free(tk_spm *spm) { free(spm->ranks); }

/* ----------------------------------------------------------------------------------------------------- encoding -- */

static bool pair(const tk_tokenizer *t, const char *text, const tk_symbol *left, const tk_symbol *right, uint32_t *rank,
                 int32_t *id) {
    *id = tk_texts_find(&t->texts, text + left->begin, left->length + right->length);
    if (*id == TK_NONE)
        return false;
    *rank = t->spm.ranks[*id];
    return true;
}

/* Bytes that the first byte of a character announces; 1 if it is none. */
static int announced(char first) {
    static const char lengths[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    return lengths[(unsigned char)first >> 4];
}

static bool encode_part(const tk_tokenizer *t, tk_work *work, const char *text, tk_sink *sink) {
    if (!tk_merge(t, work, text, pair))
        return false;
    for (int32_t i = 0; i != TK_NONE; i = work->symbols[i].next) {
        const tk_symbol s = work->symbols[i];
        if (s.id != TK_NONE)
            tk_sink_put(sink, s.id);
        for (int32_t j = 0; s.id == TK_NONE && j < s.length; j++)
            tk_sink_put(sink, t->spm.byte_ids[(unsigned char)text[s.begin + j]]);
    }
    work->count = 0;
    return true;
}

/* A copy with U+2581 for spaces; NULL: no memory. */
static char *with_spaces(tk_work *work, tk_text text, bool first, int64_t *bytes) {
    int64_t spaces = first;
    for (int64_t i = 0; i < text.count; i++)
        spaces += text.bytes[i] == ' ';
    char *copy = tk_work_buffer(work, text.count + SPACE_BYTES * spaces), *at = copy;
    *bytes = text.count + SPACE_BYTES * spaces - (spaces - first);
    for (int64_t i = first ? -1 : 0; copy != NULL && i < text.count; i++)
        if (i < 0 || text.bytes[i] == ' ') {
            memcpy(at, space, SPACE_BYTES);
            at += SPACE_BYTES;
        } else
            *at++ = text.bytes[i];
    return copy;
}

bool tk_spm_encode(const tk_tokenizer *t, tk_work *work, tk_text text, bool first, tk_sink *sink) {
    int64_t bytes;
    const char *copy = with_spaces(work, text, first, &bytes);
    bool behind = false, memory = copy != NULL; /* behind a character that is no space? */
    work->count = 0;
    for (int64_t at = 0; memory && at < bytes && !tk_sink_full(sink);) {
        const int64_t length = announced(copy[at]) < bytes - at ? announced(copy[at]) : bytes - at;
        const bool blank = is_space(copy + at, length);
        if (blank && behind && t->spm.split)
            memory = encode_part(t, work, copy, sink);
        behind = !blank;
        memory = memory && tk_work_add(work, tk_texts_find(&t->texts, copy + at, length), (int32_t)at, (int32_t)length);
        at += length;
    }
    return memory && (work->count == 0 || encode_part(t, work, copy, sink));
}

/* ----------------------------------------------------------------------------------------------------- decoding -- */

int tk_spm_byte(tk_text spelling) {
    int value = 0;
    if (spelling.count != 6 || memcmp(spelling.bytes, "<0x", 3) != 0 || spelling.bytes[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char c = spelling.bytes[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

int64_t tk_spm_decode(tk_text spelling, char *to) {
    int64_t count = 0;
    for (int64_t at = 0; at < spelling.count;) {
        const bool blank = spelling.count - at >= SPACE_BYTES && is_space(spelling.bytes + at, SPACE_BYTES);
        to[count++] = blank ? ' ' : spelling.bytes[at];
        at += blank ? SPACE_BYTES : 1;
    }
    return count;
}
