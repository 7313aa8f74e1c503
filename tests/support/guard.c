/* Guarded memory: see guard.h. Each block is a mapping of its own: forbidden page, pages, forbidden page. */
#include "guard.h"

#include "floats.h"

#include "guard_system.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static guard *blocks; /* all live ones, so that a fault can be told by name */

/* Mappings of freed blocks, forbidden as a whole, for later blocks of the same pages: to map and unmap takes longer
 * than most trials. */
enum { SPARES = 64 };
static struct {
    unsigned char *map;
    size_t pages_size, map_size;
} spare[SPARES];
static int spares;

/* The poison's byte at that address. */
static unsigned char poison_byte(const unsigned char *address) {
    float value = poison();
    return ((const unsigned char *)&value)[(uintptr_t)address % sizeof value];
}

static unsigned char *take_spare(size_t pages_size, size_t map_size) {
    unsigned char *map = NULL;
    pthread_mutex_lock(&blocks_lock);
    for (int i = 0; i < spares && !map; i++)
        if (spare[i].pages_size == pages_size && spare[i].map_size == map_size) {
            map = spare[i].map;
            spare[i] = spare[--spares];
        }
    pthread_mutex_unlock(&blocks_lock);
    return map;
}

/* Whether there was room for it. */
static bool keep_spare(const guard *g) {
    if (g->map_size > 1 << 20)
        return false;
    pthread_mutex_lock(&blocks_lock);
    const bool room = spares < SPARES;
    if (room) {
        spare[spares].map = g->pages - guard_page_size();
        spare[spares].pages_size = g->pages_size;
        spare[spares++].map_size = g->map_size;
    }
    pthread_mutex_unlock(&blocks_lock);
    return room;
}

/* size bytes, moved shift bytes from the guarded side; rest more bytes of addresses after the forbidden page are
 * forbidden, too. */
static guard *alloc(const char *name, size_t size, guard_side side, size_t shift, size_t rest) {
    size_t page = guard_page_size();
    size_t pages_size = (size + shift + page - 1) / page * page;
    size_t map_size = pages_size + 2 * page + (rest + page - 1) / page * page;
    guard *g = malloc(sizeof *g);
    guard_must(g != NULL, "guard_alloc");
    unsigned char *map = take_spare(pages_size, map_size);
    if (!map)
        map = guard_map(map_size);
    unsigned char *pages = map + page;
    if (pages_size > 0)
        guard_open(pages, pages_size);
    if (pages_size > 0)
        *(float *)pages = poison();
    for (size_t done = sizeof(float), n; done < pages_size; done += n) {
        n = done < pages_size - done ? done : pages_size - done;
        memcpy(pages + done, pages, n);
    }

    g->data = side == GUARD_START ? pages + shift : pages + pages_size - shift - size;
    g->size = size;
    g->name = name;
    g->pages = pages;
    g->pages_size = pages_size;
    g->map_size = map_size;
    pthread_mutex_lock(&blocks_lock);
    g->next = blocks;
    blocks = g;
    pthread_mutex_unlock(&blocks_lock);
    return g;
}

guard *guard_alloc(const char *name, size_t size, guard_side side) { return alloc(name, size, side, 0, 0); }

guard *guard_alloc_shifted(const char *name, size_t size, guard_side side, size_t shift) {
    return alloc(name, size, side, shift, 0);
}

guard *guard_alloc_part(const char *name, size_t size, size_t whole, guard_side side) {
    return alloc(name, size, side, 0, whole - size);
}

void guard_free(guard *g) {
    if (g == NULL)
        return;
    pthread_mutex_lock(&blocks_lock);
    guard **link = &blocks;
    while (*link != g)
        link = &(*link)->next;
    *link = g->next;
    pthread_mutex_unlock(&blocks_lock);
    if (g->pages_size > 0)
        guard_close(g->pages, g->pages_size);
    if (!keep_spare(g))
        guard_unmap(g->pages - guard_page_size(), g->map_size);
    free(g);
}

/* The first byte that is no poison, or NULL. Where all is, its first four bytes are, and each byte is as the fourth
 * before it. */
static const unsigned char *first_changed(const unsigned char *p, const unsigned char *end) {
    const unsigned char *start = p;
    while (p < end && *p == poison_byte(p)) {
        p++;
        if (p - start == sizeof(float) && memcmp(start, p, (size_t)(end - p)) == 0)
            return NULL;
    }
    return p < end ? p : NULL;
}

bool guard_intact(const guard *g, int64_t *where) {
    const unsigned char *data = g->data, *changed = first_changed(g->pages, data);
    if (!changed)
        changed = first_changed(data + g->size, g->pages + g->pages_size);
    if (changed && where)
        *where = changed - data;
    return !changed;
}

void guard_describe(const guard_fault *fault, char *text, size_t size) {
    const unsigned char *address = fault->address;
    const char *word = guard_signal_word(fault->signal);
    for (const guard *g = blocks; g; g = g->next) {
        const unsigned char *data = g->data;
        if (address < g->pages - guard_page_size() || address >= g->pages + g->pages_size + guard_page_size())
            continue;
        snprintf(text, size, "%s at byte %td of %s, which has %zu", word, address - data, g->name, g->size);
        return;
    }
    snprintf(text, size, "%s at %p, in no guarded block", word, fault->address);
}
