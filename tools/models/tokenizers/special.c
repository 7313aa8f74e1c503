/* Special tokens in a text (private.h). They are cut out in a fixed order, the longest first, each from the left,
 * as long as nothing of theirs was taken: so does llama.cpp, token by token. Here all are found at once: at each
 * place the longest one, from a sorted list; a heap brings the places into order, and a place whose token cannot be
 * cut out offers the next shorter one that is there. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

static bool is_cut(int type) { return type == TK_CONTROL || type == TK_UNKNOWN || type == TK_USER; }

static int compare(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes) {
    const int64_t same = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = memcmp(a, b, (size_t)same);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* qsort() has no argument for the texts. */
typedef struct row {
    tk_text text;
    tk_special special;
} row;

static int by_spelling(const void *a, const void *b) {
    const tk_text left = ((const row *)a)->text, right = ((const row *)b)->text;
    return compare(left.bytes, left.count, right.bytes, right.count);
}

static int by_length(const void *a, const void *b) {
    const row *left = a, *right = b;
    if (left->text.count != right->text.count)
        return left->text.count > right->text.count ? -1 : 1;
    return (left->special.id > right->special.id) - (left->special.id < right->special.id);
}

static bool begins(tk_text text, tk_text with) {
    return text.count >= with.count && memcmp(text.bytes, with.bytes, (size_t)with.count) == 0;
}

int tk_specials_make(tk_tokenizer *t, const char *name, complaint to) {
    tk_specials *s = &t->specials;
    int64_t count = 0;
    for (int64_t i = 0; i < t->texts.count; i++)
        count += is_cut(t->types[i]) && tk_texts_at(&t->texts, (int32_t)i).count > 0;
    row *rows = malloc((size_t)(count + 1) * sizeof *rows);
    s->list = malloc((size_t)(count + 1) * sizeof *s->list);
    if (rows == NULL || s->list == NULL) {
        free(rows);
        return complain(to, name, "out of memory");
    }
    for (int64_t i = 0; i < t->texts.count; i++)
        if (is_cut(t->types[i]) && tk_texts_at(&t->texts, (int32_t)i).count > 0)
            rows[s->count++] = (row){tk_texts_at(&t->texts, (int32_t)i), {(int32_t)i, 0, TK_NONE}};
    qsort(rows, (size_t)count, sizeof *rows, by_length);
    for (int64_t i = 0; i < count; i++)
        rows[i].special.order = (int32_t)i;
    qsort(rows, (size_t)count, sizeof *rows, by_spelling);
    for (int64_t i = 0; i < count; i++) {
        int32_t prefix = (int32_t)i - 1;
        while (prefix != TK_NONE && !begins(rows[i].text, rows[prefix].text))
            prefix = rows[prefix].special.prefix;
        rows[i].special.prefix = prefix;
        s->list[i] = rows[i].special;
        s->begins[(unsigned char)rows[i].text.bytes[0]] = true;
    }
    free(rows);
    return 0;
}

/* From one on, the longest that the text begins with and that may be cut, or TK_NONE. */
static int32_t longest(const tk_tokenizer *t, tk_text text, int32_t from, bool control) {
    while (from != TK_NONE) {
        const tk_special *s = &t->specials.list[from];
        if ((control || t->types[s->id] == TK_USER) && begins(text, tk_texts_at(&t->texts, s->id)))
            break;
        from = s->prefix;
    }
    return from;
}

/* All that a text begins with are prefixes of the last one that is not behind it in the order of spellings. */
static int32_t search(const tk_tokenizer *t, tk_text text, bool control) {
    int64_t low = -1, high = t->specials.count;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        const tk_text other = tk_texts_at(&t->texts, t->specials.list[middle].id);
        if (compare(other.bytes, other.count, text.bytes, text.count) <= 0)
            low = middle;
        else
            high = middle;
    }
    return longest(t, text, (int32_t)low, control);
}

static bool push(const tk_tokenizer *t, tk_heap *heap, int64_t at, int32_t special) {
    const tk_special *s = &t->specials.list[special];
    return tk_heap_push(heap, (tk_entry){.key = (uint64_t)s->order << 32 | (uint32_t)at, .id = special});
}

/* Takes what is in the heap; kept: places and ids of what was cut out. */
static bool take(const tk_tokenizer *t, tk_heap *heap, tk_text text, bool control, uint8_t *taken, tk_heap *kept) {
    bool memory = true;
    while (memory && heap->count > 0) {
        const tk_entry e = tk_heap_pop(heap);
        const int64_t at = (uint32_t)e.key;
        const int32_t id = t->specials.list[e.id].id;
        const int64_t length = tk_texts_at(&t->texts, id).count;
        /* Tokens taken before are not shorter, so it covers an end of what it overlaps. */
        if (!taken[at] && !taken[at + length - 1]) {
            memset(taken + at, 1, (size_t)length);
            memory = tk_heap_push(kept, (tk_entry){.key = (uint64_t)at, .id = id});
        } else if (!taken[at]) {
            const tk_text rest = {text.bytes + at, text.count - at};
            const int32_t shorter = longest(t, rest, t->specials.list[e.id].prefix, control);
            memory = shorter == TK_NONE || push(t, heap, at, shorter);
        }
    }
    return memory;
}

int64_t tk_specials_cut(const tk_tokenizer *t, const char *text, int64_t bytes, bool control, tk_cut **cuts) {
    tk_heap heap = {0}, kept = {0};
    bool memory = true;
    int64_t count = 0;
    *cuts = NULL;
    for (int64_t at = 0; memory && at < bytes; at++)
        if (t->specials.begins[(unsigned char)text[at]]) {
            const int32_t special = search(t, (tk_text){text + at, bytes - at}, control);
            memory = special == TK_NONE || push(t, &heap, at, special);
        }
    if (memory && heap.count > 0) {
        uint8_t *taken = calloc((size_t)bytes, 1);
        memory = taken != NULL && take(t, &heap, (tk_text){text, bytes}, control, taken, &kept);
        free(taken);
        *cuts = memory ? malloc((size_t)kept.count * sizeof **cuts) : NULL;
        memory = *cuts != NULL;
        while (memory && kept.count > 0) {
            const tk_entry e = tk_heap_pop(&kept);
            (*cuts)[count++] = (tk_cut){(int64_t)e.key, e.id};
        }
    }
    free(heap.entries);
    free(kept.entries);
    return memory ? count : TK_NO_MEMORY;
}
