/* Joining of symbols, the best pair first (private.h): symbols are a linked list, pairs that may be joined a heap. A
 * pair in the heap is stale if one of the two was joined to another since: then its length is another, or one is
 * gone. */
#include "private.h"

#include <stdlib.h>

/* Grows an array to at least room elements. */
static void *grown(void *old, int64_t *room, int64_t needed, size_t bytes) {
    enum { LEAST = 64 };
    const int64_t more = needed > LEAST ? 2 * needed : LEAST;
    void *grown = realloc(old, (size_t)more * bytes);
    if (grown != NULL)
        *room = more;
    return grown;
}

bool tk_heap_push(tk_heap *heap, tk_entry entry) {
    if (heap->count == heap->room) {
        tk_entry *more = grown(heap->entries, &heap->room, heap->count + 1, sizeof *more);
        if (more == NULL)
            return false;
        heap->entries = more;
    }
    int64_t at = heap->count++;
    for (; at > 0 && heap->entries[(at - 1) / 2].key > entry.key; at = (at - 1) / 2)
        heap->entries[at] = heap->entries[(at - 1) / 2];
    heap->entries[at] = entry;
    return true;
}

tk_entry tk_heap_pop(tk_heap *heap) {
    tk_entry *e = heap->entries;
    const tk_entry least = e[0], moved = e[--heap->count];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < heap->count; at = child) {
        child += child + 1 < heap->count && e[child + 1].key < e[child].key;
        if (e[child].key >= moved.key)
            break;
        e[at] = e[child];
    }
    e[at] = moved;
    return least;
}

void tk_work_free(tk_work *work) {
    free(work->symbols);
    free(work->heap.entries);
    free(work->buffer);
}

char *tk_work_buffer(tk_work *work, int64_t room) {
    if (room > work->buffer_room) {
        char *more = grown(work->buffer, &work->buffer_room, room, 1);
        if (more == NULL)
            return NULL;
        work->buffer = more;
    }
    return work->buffer;
}

bool tk_work_add(tk_work *work, int32_t id, int32_t begin, int32_t length) {
    const int64_t i = work->count;
    if (i == work->room) {
        tk_symbol *more = grown(work->symbols, &work->room, i + 1, sizeof *more);
        if (more == NULL)
            return false;
        work->symbols = more;
    }
    work->symbols[i] = (tk_symbol){id, begin, length, (int32_t)i - 1, TK_NONE};
    if (i > 0)
        work->symbols[i - 1].next = (int32_t)i;
    work->count++;
    return true;
}

/* Puts a symbol and the one behind it into the heap, if they may be joined; false: no memory. */
static bool offer(const tk_tokenizer *t, tk_work *work, const char *text, tk_pair *pair, int32_t left) {
    const tk_symbol *s = work->symbols;
    uint32_t rank;
    int32_t id;
    if (left == TK_NONE || s[left].next == TK_NONE || !pair(t, text, &s[left], &s[s[left].next], &rank, &id))
        return true;
    const int32_t right = s[left].next;
    return tk_heap_push(&work->heap, (tk_entry){.key = (uint64_t)rank << 32 | (uint32_t)left,
                                                .right = right,
                                                .length = s[left].length + s[right].length,
                                                .id = id});
}

bool tk_merge(const tk_tokenizer *t, tk_work *work, const char *text, tk_pair *pair) {
    tk_symbol *s = work->symbols;
    work->heap.count = 0;
    for (int64_t i = 0; i + 1 < work->count; i++)
        if (!offer(t, work, text, pair, (int32_t)i))
            return false;
    while (work->heap.count > 0) {
        const tk_entry best = tk_heap_pop(&work->heap);
        const int32_t at = (int32_t)(uint32_t)best.key;
        tk_symbol *left = &s[at], *right = &s[best.right];
        if (left->length == 0 || right->length == 0 || left->length + right->length != best.length)
            continue;
        left->id = best.id;
        left->length = best.length;
        left->next = right->next;
        right->length = 0;
        if (left->next != TK_NONE)
            s[left->next].prev = at;
        if (!offer(t, work, text, pair, left->prev) || !offer(t, work, text, pair, at))
            return false;
    }
    return true;
}
