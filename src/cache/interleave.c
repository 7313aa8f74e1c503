/* Interleaved keys (pool.h). */
#include "cache/pool.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* The size of a word is a constant for the compiler. */
INLINE void read_key(const char *at, int64_t group, int64_t bytes, char *row, const int64_t word) {
    for (; bytes >= word; bytes -= word, row += word, at += group * word)
        memcpy(row, at, (size_t)word);
    memcpy(row, at, (size_t)bytes);
}

INLINE void write_key(char *at, int64_t group, int64_t bytes, const char *row, const int64_t word) {
    for (; bytes >= word; bytes -= word, row += word, at += group * word)
        memcpy(at, row, (size_t)word);
    if (bytes > 0) {
        memset(at, 0, (size_t)word);
        memcpy(at, row, (size_t)bytes);
    }
}

static uint32_t swapped(uint32_t halves) { return halves << 16 | halves >> 16; }

/* A word of two bfloat16 has the first in the high half: two elements as they lie, halves swapped. A key of an odd
 * number of elements ends with zero. */
static void read_pairs(const char *at, int64_t bytes, char *row) {
    for (; bytes > 0; bytes -= 4, row += 4, at += FV_KEY_GROUP * 4) {
        uint32_t word;
        memcpy(&word, at, sizeof word);
        word = swapped(word);
        memcpy(row, &word, bytes > 2 ? sizeof word : sizeof word / 2);
    }
}

static void write_pairs(char *at, int64_t bytes, const char *row) {
    for (; bytes > 0; bytes -= 4, row += 4, at += FV_KEY_GROUP * 4) {
        uint32_t word = 0;
        memcpy(&word, row, bytes > 2 ? sizeof word : sizeof word / 2);
        word = swapped(word);
        memcpy(at, &word, sizeof word);
    }
}

void fv_interleaved_read(const fv_pages *p, fv_page_part part, int32_t page, int64_t head, int64_t key, int64_t count,
                         char *rows) {
    const int64_t bytes = p->part[part].row, group = p->part[part].group;
    for (int64_t i = 0; i < count; i++, rows += bytes) {
        const char *at = fv_page_at(p, part, page, head, key + i);
        if (part == FV_KEYS && p->dtype[0] == FOVEA_DTYPE_BF16)
            read_pairs(at, bytes, rows);
        else if (p->part[part].word == 2)
            read_key(at, group, bytes, rows, 2);
        else
            read_key(at, group, bytes, rows, 4);
    }
}

void fv_interleaved_write(const fv_pages *p, fv_page_part part, int32_t page, int64_t head, int64_t key, int64_t count,
                          const char *rows) {
    const int64_t bytes = p->part[part].row, group = p->part[part].group;
    for (int64_t i = 0; i < count; i++, rows += bytes) {
        char *at = fv_page_at(p, part, page, head, key + i);
        if (part == FV_KEYS && p->dtype[0] == FOVEA_DTYPE_BF16)
            write_pairs(at, bytes, rows);
        else if (p->part[part].word == 2)
            write_key(at, group, bytes, rows, 2);
        else
            write_key(at, group, bytes, rows, 4);
    }
}
