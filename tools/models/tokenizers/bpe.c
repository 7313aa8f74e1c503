/* Byte-level BPE (private.h): a word's bytes, each a token, are joined by merges. In spellings a character stands for
 * a byte: printable ones for themselves, 256, 257 ... for the others. Merges are a hash table from a pair of tokens to
 * its rank. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { OTHERS = 256, MERGES_MOST = 1 << 24, BLOCK = 32 };

static bool printable(int byte) { return (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad); }

/* The character of each byte, and back. */
static void list_codes(tk_bpe *bpe) {
    int others = OTHERS;
    memset(bpe->bytes, -1, sizeof bpe->bytes);
    for (int byte = 0; byte < 256; byte++) {
        bpe->codes[byte] = (uint16_t)(printable(byte) ? byte : others++);
        bpe->bytes[bpe->codes[byte]] = (int16_t)byte;
    }
}

/* ------------------------------------------------------------------------------------------------------ reading -- */

static uint64_t hash_of(int32_t left, int32_t right) {
    const uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The slot of a pair, or the free one for it. */
static uint32_t *slot_of(const tk_bpe *bpe, int32_t left, int32_t right) {
    for (uint64_t at = hash_of(left, right);; at++) {
        uint32_t *slot = &bpe->slots[at & bpe->mask];
        if (*slot == 0 || (bpe->merges[*slot - 1].left == left && bpe->merges[*slot - 1].right == right))
            return slot;
    }
}

/* A merge that is being read. */
typedef struct half {
    tk_text text;
    uint64_t hash;
} half;

typedef struct pending {
    half left, right;
} pending;

static half half_of(const tk_texts *texts, const char *bytes, int64_t count) {
    const half h = {{bytes, count}, tk_texts_hash(bytes, count)};
    tk_fetch(&texts->slots[h.hash & texts->mask]);
    return h;
}

/* Splits a merge; its copy stays at to. False: it is not two texts. */
static bool split(const tk_texts *texts, tk_text merge, char *to, pending *p) {
    const char *space = merge.count > 1 ? memchr(merge.bytes + 1, ' ', (size_t)merge.count - 1) : NULL;
    if (space == NULL || merge.count - 1 > texts->longest)
        return false;
    const int64_t left = space - merge.bytes;
    memcpy(to, merge.bytes, (size_t)merge.count);
    p->left = half_of(texts, to, left);
    p->right = half_of(texts, to + left + 1, merge.count - left - 1);
    return true;
}

static bool is_joined(const tk_texts *texts, int32_t id, const pending *p) {
    if (id >= texts->count)
        return false;
    const tk_text text = tk_texts_at(texts, id), left = p->left.text, right = p->right.text;
    return text.count == left.count + right.count && memcmp(text.bytes, left.bytes, (size_t)left.count) == 0 &&
           memcmp(text.bytes + left.count, right.bytes, (size_t)right.count) == 0;
}

/* The token that both become: most often that of the merge before, or the next one. The merge is at left, and its space
 * is written over. */
static int32_t find_joined(const tk_texts *texts, const pending *p, char *left, int32_t before) {
    if (is_joined(texts, before + 1, p) || is_joined(texts, before, p))
        return before + !is_joined(texts, before, p);
    memmove(left + p->left.text.count, p->right.text.bytes, (size_t)p->right.text.count);
    return tk_texts_find(texts, left, p->left.text.count + p->right.text.count);
}

static int32_t find_half(const tk_texts *texts, half h) {
    return tk_texts_find_hashed(texts, h.text.bytes, h.text.count, h.hash);
}

/* Merges from..to - 1, in steps: each fetches what the next one reads. */
static int64_t read_block(tk_tokenizer *t, const tk_list *list, int64_t from, int64_t to, char *buffer) {
    pending block[BLOCK];
    tk_bpe *bpe = &t->bpe;
    const int64_t stride = t->texts.longest + 1;
    for (int64_t i = from; i < to; i++)
        if (!split(&t->texts, list->next(list->at), buffer + (i - from) * stride, &block[i - from]))
            return i;
    for (int64_t i = from; i < to; i++) {
        const pending *p = &block[i - from];
        tk_merge_row *row = &bpe->merges[i];
        row->left = find_half(&t->texts, p->left);
        row->right = find_half(&t->texts, p->right);
        row->id = find_joined(&t->texts, p, buffer + (i - from) * stride, i > 0 ? bpe->merges[i - 1].id : 0);
        if (row->left == TK_NONE || row->right == TK_NONE || row->id == TK_NONE)
            return i;
        tk_fetch(&bpe->slots[hash_of(row->left, row->right) & bpe->mask]);
    }
    for (int64_t i = from; i < to; i++) {
        uint32_t *slot = slot_of(bpe, bpe->merges[i].left, bpe->merges[i].right);
        if (*slot == 0) /* of two that are alike, the first counts */
            *slot = (uint32_t)i + 1;
    }
    return to;
}

static int read_merges(tk_tokenizer *t, const tk_list *list, const char *name, complaint to) {
    char *buffer = malloc((size_t)(t->texts.longest + 1) * BLOCK);
    if (buffer == NULL)
        return complain(to, name, "out of memory");
    int64_t done = 0;
    for (int64_t end = 0; done == end && done < list->count;) {
        end = list->count - done < BLOCK ? list->count : done + BLOCK;
        done = read_block(t, list, done, end, buffer);
    }
    free(buffer);
    return done == list->count
               ? 0
               : complain(to, name, "merge %lld is not of tokens of the vocabulary", (long long)done + 1);
}

int tk_bpe_read(tk_tokenizer *t, const tk_description *d, complaint to) {
    tk_bpe *bpe = &t->bpe;
    uint64_t slots = 2;
    if (d->merges.count < 0 || d->merges.count > MERGES_MOST)
        return complain(to, d->name, "has %lld merges, more than %d", (long long)d->merges.count, MERGES_MOST);
    while (slots < (uint64_t)d->merges.count / 2 * 3)
        slots *= 2;
    bpe->mask = slots - 1;
    bpe->slots = calloc((size_t)slots, sizeof *bpe->slots);
    bpe->merges = malloc((size_t)(d->merges.count + 1) * sizeof *bpe->merges);
    if (bpe->slots == NULL || bpe->merges == NULL)
        return complain(to, d->name, "out of memory");
    if (read_merges(t, &d->merges, d->name, to) != 0)
        return -1;
    list_codes(bpe);
    for (int byte = 0; byte < 256; byte++) {
        char spelling[4];
        bpe->byte_ids[byte] = tk_texts_find(&t->texts, spelling, tk_put_character(bpe->codes[byte], spelling));
    }
    tk_classes_make(&bpe->classes);
    return 0;
}

void tk_bpe_free(tk_bpe *bpe) {
    free(bpe->merges);
    free(bpe->slots);
}

/* ----------------------------------------------------------------------------------------------------- encoding -- */

static bool pair(const tk_tokenizer *t, const char *text, const tk_symbol *left, const tk_symbol *right, uint32_t *rank,
                 int32_t *id) {
    (void)text;
    if (left->id == TK_NONE || right->id == TK_NONE)
        return false;
    const uint32_t slot = *slot_of(&t->bpe, left->id, right->id);
    if (slot == 0)
        return false;
    *rank = slot - 1;
    *id = t->bpe.merges[slot - 1].id;
    return true;
}

/* The token that a word is as a whole, or TK_NONE. */
static int32_t whole_word(const tk_tokenizer *t, tk_work *work, const char *word, int64_t bytes, bool *memory) {
    if (bytes > t->texts.longest)
        return TK_NONE;
    char *spelling = tk_work_buffer(work, 2 * bytes);
    if (!(*memory = spelling != NULL))
        return TK_NONE;
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++)
        count += tk_put_character(t->bpe.codes[(unsigned char)word[i]], spelling + count);
    return tk_texts_find(&t->texts, spelling, count);
}

static bool encode_word(const tk_tokenizer *t, tk_work *work, const char *word, int64_t bytes, tk_sink *sink) {
    bool memory = true;
    const int32_t whole = t->bpe.rule->whole_words ? whole_word(t, work, word, bytes, &memory) : TK_NONE;
    if (whole != TK_NONE)
        tk_sink_put(sink, whole);
    if (whole != TK_NONE || !memory)
        return memory;
    work->count = 0;
    for (int64_t i = 0; i < bytes && memory; i++)
        memory = tk_work_add(work, t->bpe.byte_ids[(unsigned char)word[i]], (int32_t)i, 1);
    if (!memory || !tk_merge(t, work, word, pair))
        return false;
    for (int32_t i = 0; i != TK_NONE; i = work->symbols[i].next)
        if (work->symbols[i].id != TK_NONE) /* of a byte that is no token nothing is left */
            tk_sink_put(sink, work->symbols[i].id);
    return true;
}

/* Is each byte part of a character, and each character in its shortest form? */
static bool is_sound(tk_text text) {
    uint32_t code;
    int length;
    char again[4];
    for (int64_t at = 0; at < text.count; at += length) {
        length = 1;
        if ((unsigned char)text.bytes[at] >= 0x80 && (!tk_character(text.bytes + at, text.count - at, &code, &length) ||
                                                      tk_put_character(code, again) != length))
            return false;
    }
    return true;
}

/* A copy to be freed, where what is no character is U+FFFD; NULL: no memory. */
static char *make_sound(tk_text text, int64_t *bytes) {
    char *copy = malloc(3 * (size_t)text.count + 1);
    *bytes = 0;
    for (int64_t at = 0; copy != NULL && at < text.count;) {
        uint32_t code;
        int length;
        if (!tk_character(text.bytes + at, text.count - at, &code, &length)) {
            code = 0xfffd;
            length = 1;
        }
        *bytes += tk_put_character(code, copy + *bytes);
        at += length;
    }
    return copy;
}

bool tk_bpe_encode(const tk_tokenizer *t, tk_work *work, tk_text text, tk_sink *sink) {
    char *copy = NULL;
    if (!is_sound(text)) {
        text.bytes = copy = make_sound(text, &text.count);
        if (copy == NULL)
            return false;
    }
    tk_words words = {.rule = t->bpe.rule, .classes = &t->bpe.classes, .text = text.bytes, .bytes = text.count};
    bool memory = true;
    for (int64_t begin, end; memory && !tk_sink_full(sink) && tk_words_next(&words, &begin, &end);)
        memory = encode_word(t, work, text.bytes + begin, end - begin, sink);
    free(copy);
    return memory;
}

/* ----------------------------------------------------------------------------------------------------- decoding -- */

int64_t tk_bpe_decode(const tk_bpe *bpe, tk_text spelling, char *to) {
    int64_t count = 0;
    for (int64_t at = 0; at < spelling.count;) {
        uint32_t code;
        int length;
        if (!tk_character(spelling.bytes + at, spelling.count - at, &code, &length) || code >= TK_BYTE_CODES ||
            bpe->bytes[code] < 0) { /* not of bytes: an added token, which is spelt as it is written */
            memcpy(to, spelling.bytes, (size_t)spelling.count);
            return spelling.count;
        }
        to[count++] = (char)bpe->bytes[code];
        at += length;
    }
    return count;
}
