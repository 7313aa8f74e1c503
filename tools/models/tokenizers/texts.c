/* Texts with ids (private.h). */
#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { ID_BITS = 24, TEXTS_MOST = (1 << ID_BITS) - 1, TEXT_BYTES_MOST = 1 << 12 };

/* A slot: a part of the hash above an id + 1; 0: free. */
static int32_t id_in(uint32_t slot) { return (int32_t)(slot & TEXTS_MOST) - 1; }
static uint32_t tag_of(uint64_t h) { return (uint32_t)(h >> 32) & ~(uint32_t)TEXTS_MOST; }

static uint64_t word_at(const char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

uint64_t tk_texts_hash(const char *bytes, int64_t count) {
    uint64_t h = (uint64_t)count * 0xff51afd7ed558ccdu, last = 0;
    for (; count > 8; bytes += 8, count -= 8)
        h = mix(h, word_at(bytes));
    memcpy(&last, bytes, (size_t)count);
    h = mix(mix(h, last), 0xc4ceb9fe1a85ec53u);
    return h ^ h >> 32;
}

/* Where a text is, or the free slot for it. */
static uint32_t *slot_of(const tk_texts *texts, const char *bytes, int64_t count, uint64_t h) {
    for (uint64_t at = h;; at++) {
        uint32_t *slot = &texts->slots[at & texts->mask];
        if (*slot == 0)
            return slot;
        if ((*slot & ~(uint32_t)TEXTS_MOST) == tag_of(h)) {
            const tk_text other = tk_texts_at(texts, id_in(*slot));
            if (other.count == count && memcmp(other.bytes, bytes, (size_t)count) == 0)
                return slot;
        }
    }
}

int32_t tk_texts_find_hashed(const tk_texts *texts, const char *bytes, int64_t count, uint64_t h) {
    if (count > texts->longest || count == 0)
        return TK_NONE;
    return id_in(*slot_of(texts, bytes, count, h));
}

int32_t tk_texts_find(const tk_texts *texts, const char *bytes, int64_t count) {
    return tk_texts_find_hashed(texts, bytes, count, tk_texts_hash(bytes, count));
}

/* Copies the text of an id; *room bytes are there. */
static bool copy(tk_texts *texts, int64_t id, tk_text text, int64_t *room) {
    const int64_t begin = texts->begins[id], end = begin + text.count + 1;
    if (end > INT32_MAX)
        return false;
    if (end > *room) {
        char *more = realloc(texts->bytes, (size_t)(*room = 2 * end + 4096));
        if (more == NULL)
            return false;
        texts->bytes = more;
    }
    if (text.count > 0)
        memcpy(texts->bytes + begin, text.bytes, (size_t)text.count);
    texts->bytes[end - 1] = '\0';
    texts->begins[id + 1] = (int32_t)end;
    return true;
}

int tk_texts_read(tk_texts *texts, const tk_list *list, const char *name, complaint to) {
    if (list->count < 1 || list->count > TEXTS_MOST)
        return complain(to, name, "its vocabulary has %lld tokens, not 1 to %d", (long long)list->count, TEXTS_MOST);
    int64_t room = 0;
    uint64_t slots = 2;
    while (slots < 2 * (uint64_t)list->count)
        slots *= 2;
    texts->mask = slots - 1;
    texts->slots = calloc((size_t)slots, sizeof *texts->slots);
    texts->begins = calloc((size_t)list->count + 1, sizeof *texts->begins);
    if (texts->slots == NULL || texts->begins == NULL)
        return complain(to, name, "out of memory");
    for (int64_t i = 0; i < list->count; i++) {
        const tk_text text = list->next(list->at);
        if (text.count < 0 || text.count > TEXT_BYTES_MOST)
            return complain(to, name, "token %lld has more than %d bytes", (long long)i, TEXT_BYTES_MOST);
        if (!copy(texts, i, text, &room))
            return complain(to, name, "out of memory");
        texts->longest = text.count > texts->longest ? text.count : texts->longest;
        texts->count = i + 1;
        if (text.count == 0)
            continue;
        const tk_text own = tk_texts_at(texts, (int32_t)i);
        const uint64_t h = tk_texts_hash(own.bytes, own.count);
        uint32_t *slot = slot_of(texts, own.bytes, own.count, h);
        if (*slot != 0)
            return complain(to, name, "tokens %lld and %lld are spelt alike", (long long)id_in(*slot), (long long)i);
        *slot = tag_of(h) | (uint32_t)(i + 1);
    }
    return 0;
}

void tk_texts_free(tk_texts *texts) {
    free(texts->bytes);
    free(texts->begins);
    free(texts->slots);
}
