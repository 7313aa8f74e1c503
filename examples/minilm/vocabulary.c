/* vocabulary.h: a hash table with open addresses. */
#include "vocabulary.h"

#include "text_file.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 26, IDS_MOST = 1 << 22 };

struct vocabulary {
    char *bytes; /* all pieces, a zero after each */
    const char **text;
    int64_t count;
    int32_t *slots; /* ids or VOCABULARY_NONE; their number is a power of two, at least twice count */
    uint64_t slot_mask;
};

/* FNV-1a. */
static uint64_t hash(const char *prefix, const char *bytes, size_t count) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *prefix; prefix++)
        h = (h ^ (unsigned char)*prefix) * 0x100000001b3u;
    for (size_t i = 0; i < count; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot of a piece, or the free one where it would be. */
static int32_t *slot_of(const vocabulary *v, const char *prefix, const char *bytes, size_t count) {
    const size_t before = strlen(prefix);
    for (uint64_t at = hash(prefix, bytes, count);; at++) {
        int32_t *slot = &v->slots[at & v->slot_mask];
        if (*slot == VOCABULARY_NONE)
            return slot;
        const char *piece = v->text[*slot];
        if (strncmp(piece, prefix, before) == 0 && strncmp(piece + before, bytes, count) == 0 &&
            piece[before + count] == 0)
            return slot;
    }
}

static int out_of_memory(const char *path, complaint to) { return complain(to, path, "out of memory"); }

/* Room for ids from 0 to count - 1. */
static int allocate(vocabulary *v, const char *path, int64_t count, complaint to) {
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    v->text = calloc((size_t)count + 1, sizeof *v->text);
    v->slots = malloc((size_t)slots * sizeof *v->slots);
    if (v->text == NULL || v->slots == NULL)
        return out_of_memory(path, to);
    v->slot_mask = slots - 1;
    for (uint64_t i = 0; i < slots; i++)
        v->slots[i] = VOCABULARY_NONE;
    return 0;
}

/* Cuts the file into pieces. */
static int list_lines(vocabulary *v, const char *path, int64_t bytes, complaint to) {
    if (bytes > 0 && v->bytes[bytes - 1] == '\n')
        bytes--;
    v->bytes[bytes] = '\n';
    int64_t lines = 0;
    for (int64_t i = 0; i <= bytes; i++)
        lines += v->bytes[i] == '\n';
    if (allocate(v, path, lines, to) != 0)
        return -1;
    for (char *piece = v->bytes; v->count < lines; v->count++) {
        char *end = strchr(piece, '\n');
        *end = 0;
        int32_t *slot = slot_of(v, "", piece, (size_t)(end - piece));
        if (end == piece)
            return complain(to, path, "line %lld is empty", (long long)v->count + 1);
        if (*slot != VOCABULARY_NONE)
            return complain(to, path, "line %lld repeats line %ld", (long long)v->count + 1, *slot + 1L);
        v->text[v->count] = piece;
        *slot = (int32_t)v->count;
        piece = end + 1;
    }
    return 0;
}

int vocabulary_load(const char *path, vocabulary **v_out, complaint to) {
    int64_t bytes;
    *v_out = NULL;
    vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(path, to);
    v->bytes = text_file_read(path, FILE_MOST, &bytes, to);
    if (v->bytes != NULL && list_lines(v, path, bytes, to) == 0)
        return *v_out = v, 0;
    vocabulary_free(v);
    return -1;
}

/* The sizes of a JSON object's pieces, checked. */
static int measure(const char *path, const json_t *pieces, int64_t *count, size_t *bytes, complaint to) {
    const char *piece;
    json_t *id;
    *count = 0;
    *bytes = 1;
    json_object_foreach((json_t *)pieces, piece, id) {
        const int64_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= IDS_MOST)
            return complain(to, path, "the id of a piece of its vocabulary is not a number from 0 to %d", IDS_MOST - 1);
        if (*piece == '\0')
            return complain(to, path, "piece %lld of its vocabulary is empty", (long long)number);
        *bytes += strlen(piece) + 1;
        *count = number + 1 > *count ? number + 1 : *count;
    }
    return *count > 0 ? 0 : complain(to, path, "its vocabulary is empty");
}

static int list_pieces(vocabulary *v, const char *path, const json_t *pieces, complaint to) {
    const char *piece;
    json_t *id;
    size_t bytes;
    if (measure(path, pieces, &v->count, &bytes, to) != 0)
        return -1;
    if ((v->bytes = malloc(bytes)) == NULL)
        return out_of_memory(path, to);
    if (allocate(v, path, v->count, to) != 0)
        return -1;
    char *at = v->bytes;
    json_object_foreach((json_t *)pieces, piece, id) {
        const size_t length = strlen(piece);
        const int64_t number = json_integer_value(id);
        if (v->text[number] != NULL)
            return complain(to, path, "two pieces of its vocabulary have the id %lld", (long long)number);
        *slot_of(v, "", piece, length) = (int32_t)number;
        v->text[number] = memcpy(at, piece, length + 1);
        at += length + 1;
    }
    return 0;
}

int vocabulary_from_json(const char *path, const json_t *pieces, vocabulary **v_out, complaint to) {
    *v_out = NULL;
    vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(path, to);
    if (list_pieces(v, path, pieces, to) == 0)
        return *v_out = v, 0;
    vocabulary_free(v);
    return -1;
}

void vocabulary_free(vocabulary *v) {
    if (v == NULL)
        return;
    free(v->bytes);
    free(v->text);
    free(v->slots);
    free(v);
}

int64_t vocabulary_count(const vocabulary *v) { return v->count; }

const char *vocabulary_text(const vocabulary *v, int32_t id) { return id >= 0 && id < v->count ? v->text[id] : NULL; }

int32_t vocabulary_find(const vocabulary *v, const char *prefix, const char *bytes, size_t count) {
    return *slot_of(v, prefix, bytes, count);
}
