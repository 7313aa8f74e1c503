/* bpe.h. Merges are a hash table with open addresses, from the ids of a pair to its rank and what it becomes. */
#include "bpe.h"

#include <utf8proc.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MOST = 4096, BYTES = 256, MERGES_MOST = 1 << 22 };

typedef struct merge {
    int32_t left, right, id; /* left VOCABULARY_NONE: a free slot */
    int32_t rank;
} merge;

struct bpe {
    vocabulary *pieces;
    int32_t byte_ids[BYTES]; /* VOCABULARY_NONE: no piece */
    merge *slots;
    uint64_t slot_mask;
    int64_t count, most;
    bool digits_apart;
};

/* -------------------------------------------------------------------------------------------------------- merges -- */

static merge *slot_of(const bpe *b, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    for (uint64_t at = h ^ h >> 32;; at++) {
        merge *m = &b->slots[at & b->slot_mask];
        if (m->left == VOCABULARY_NONE || (m->left == left && m->right == right))
            return m;
    }
}

/* The character that stands for a byte: printable ones for themselves, the others for 256, 257, ... in their order. */
static void find_bytes(bpe *b) {
    int others = BYTES;
    for (int byte = 0; byte < BYTES; byte++) {
        const bool printable = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        utf8proc_uint8_t text[4];
        const utf8proc_ssize_t length = utf8proc_encode_char(printable ? byte : others++, text);
        b->byte_ids[byte] = vocabulary_find(b->pieces, "", (const char *)text, (size_t)length);
    }
}

int bpe_create(vocabulary *v, int64_t merges, const char *path, bpe **b_out, complaint to) {
    *b_out = NULL;
    bpe *b = calloc(1, sizeof *b);
    if (b == NULL) {
        vocabulary_free(v);
        return complain(to, path, "out of memory");
    }
    b->pieces = v;
    b->most = merges;
    if (merges > MERGES_MOST) {
        bpe_free(b);
        return complain(to, path, "has %lld merges: more than %d", (long long)merges, MERGES_MOST);
    }
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)merges)
        slots *= 2;
    b->slots = malloc((size_t)slots * sizeof *b->slots);
    if (b->slots == NULL) {
        bpe_free(b);
        return complain(to, path, "out of memory");
    }
    b->slot_mask = slots - 1;
    for (uint64_t i = 0; i < slots; i++)
        b->slots[i].left = VOCABULARY_NONE;
    find_bytes(b);
    return *b_out = b, 0;
}

void bpe_free(bpe *b) {
    if (b == NULL)
        return;
    vocabulary_free(b->pieces);
    free(b->slots);
    free(b);
}

/* The piece that two become. */
static int32_t find_joined(const bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes) {
    char joined[WORD_MOST];
    if (left_bytes + right_bytes > sizeof joined)
        return VOCABULARY_NONE;
    memcpy(joined, left, left_bytes);
    memcpy(joined + left_bytes, right, right_bytes);
    return vocabulary_find(b->pieces, "", joined, left_bytes + right_bytes);
}

int bpe_add_merge(bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes, const char *path,
                  complaint to) {
    const merge m = {.left = vocabulary_find(b->pieces, "", left, left_bytes),
                     .right = vocabulary_find(b->pieces, "", right, right_bytes),
                     .id = find_joined(b, left, left_bytes, right, right_bytes),
                     .rank = (int32_t)b->count};
    if (b->count == b->most || m.left == VOCABULARY_NONE || m.right == VOCABULARY_NONE || m.id == VOCABULARY_NONE)
        return complain(to, path, "merge %lld is not of pieces of the vocabulary", (long long)b->count + 1);
    b->count++;
    merge *slot = slot_of(b, m.left, m.right);
    if (slot->left == VOCABULARY_NONE) /* of two that are alike, the first counts */
        *slot = m;
    return 0;
}

const vocabulary *bpe_pieces(const bpe *b) { return b->pieces; }

/* --------------------------------------------------------------------------------------------------------- words -- */

typedef enum kind { LETTER, DIGIT, SPACE, OTHER } kind;

/* Of the character at a place, and how many bytes it has; what is no UTF-8 is some other character. */
static kind kind_at(const char *text, size_t bytes, size_t at, size_t *length) {
    utf8proc_int32_t c;
    const utf8proc_ssize_t count =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &c);
    *length = count > 0 ? (size_t)count : 1;
    if (count < 1)
        return OTHER;
    const utf8proc_category_t category = utf8proc_category(c);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return DIGIT;
    const bool space =
        (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP) || (c >= 9 && c <= 13) || c == 0x85;
    return space ? SPACE : OTHER;
}

static size_t contraction(const char *text, size_t bytes, size_t at) {
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t length = strlen(ends[i]);
        if (length <= bytes - at && memcmp(text + at, ends[i], length) == 0)
            return length;
    }
    return 0;
}

size_t bpe_word_end(const char *text, size_t bytes, size_t at) {
    size_t length = contraction(text, bytes, at);
    if (length > 0)
        return at + length;
    kind k = kind_at(text, bytes, at, &length);
    if (text[at] == ' ' && at + 1 < bytes) {
        const kind next = kind_at(text, bytes, at + 1, &length);
        if (next != SPACE) {
            k = next;
            at++;
        } else
            length = 1;
    }
    size_t end = at + length, last = at;
    while (end < bytes && kind_at(text, bytes, end, &length) == k) {
        last = end;
        end += length;
    }
    /* White space leaves its last character to the word behind it, unless that is all there is. */
    return k == SPACE && end < bytes && last > at ? last : end;
}

/* Joins the pieces of a word until no pair can be; how many are left. */
static int64_t join(const bpe *b, int32_t *ids, int64_t count) {
    for (;;) {
        const merge *best = NULL;
        int64_t place = 0;
        for (int64_t i = 0; i + 1 < count; i++) {
            const merge *m = slot_of(b, ids[i], ids[i + 1]);
            if (m->left != VOCABULARY_NONE && (best == NULL || m->rank < best->rank)) {
                best = m;
                place = i;
            }
        }
        if (best == NULL)
            return count;
        ids[place] = best->id;
        count--;
        memmove(ids + place + 1, ids + place + 2, (size_t)(count - place - 1) * sizeof *ids);
    }
}

void bpe_cut_digits(bpe *b) { b->digits_apart = true; }

/* Of a text without a cut. */
static int64_t tokens_of(const bpe *b, const char *text, size_t bytes, int32_t *ids, int64_t most) {
    int32_t word[WORD_MOST];
    int64_t total = 0;
    for (size_t at = 0, end; at < bytes && total < most; at = end) {
        int64_t count = 0;
        end = bpe_word_end(text, bytes, at);
        end = end - at > WORD_MOST ? at + WORD_MOST : end;
        for (size_t i = at; i < end; i++) {
            const int32_t id = b->byte_ids[(unsigned char)text[i]];
            if (id != VOCABULARY_NONE)
                word[count++] = id;
        }
        count = join(b, word, count);
        for (int64_t i = 0; i < count && total < most; i++)
            ids[total++] = word[i];
    }
    return total;
}

int64_t bpe_tokens(const bpe *b, const char *text, size_t bytes, int32_t *ids, int64_t most) {
    int64_t total = 0;
    size_t begin = 0;
    for (size_t at = 0, length; at < bytes && b->digits_apart; at += length)
        if (kind_at(text, bytes, at, &length) == DIGIT) {
            total += tokens_of(b, text + begin, at - begin, ids + total, most - total);
            total += tokens_of(b, text + at, length, ids + total, most - total);
            begin = at + length;
        }
    return total + tokens_of(b, text + begin, bytes - begin, ids + total, most - total);
}
