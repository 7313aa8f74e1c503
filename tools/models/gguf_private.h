/* A GGUF file (gguf.h), between gguf.c, which parses its header, and gguf_file.c, which opens and reads it. */
#ifndef MODELS_GGUF_PRIVATE_H
#define MODELS_GGUF_PRIVATE_H

#include "gguf.h"

#include <stdio.h>

enum { GGUF_HEADER_MOST = 1 << 28 }; /* bytes */

struct gguf {
    char *path;
    FILE *file;                              /* or NULL: all is in memory */
    const uint8_t *front;                    /* the header, and what of the rest was read with it */
    uint8_t *owned;                          /* front, if it is ours */
    int64_t front_bytes, size;               /* of the front, of the file */
    gguf_value *values, **values_by_key;     /* in their order, and sorted */
    gguf_tensor *tensors, **tensors_by_name; /* likewise */
    int64_t value_count, tensor_count;
    gguf **parts; /* the other files of a split model */
    int part_count;
};

/* The rest that is to be parsed. short_of: it ended too early. */
typedef struct reader {
    gguf *file;
    int64_t at;
    bool short_of;
    complaint to;
} reader;

/* Parses the header of r->file; 0, or -1 after a complaint. */
int gguf_read_header(reader *r);

/* Sorts the arrays by name; -1 after a complaint: one comes twice. */
int gguf_sort_tensors(gguf *f, complaint to);

/* One file, whether or not it is a part of several (gguf_file.c). */
int gguf_open_one(const char *path, gguf **file, complaint to);

/* Opens the other files, if there are any, and adds their arrays to the first one's (gguf_split.c). */
int gguf_open_parts(gguf *first, complaint to);

/* Printable, so that it can stand in a sentence. */
static inline bool gguf_is_name(gguf_text text) {
    for (int64_t i = 0; i < text.count; i++)
        if (text.bytes[i] <= ' ' || text.bytes[i] > '~')
            return false;
    return text.count > 0;
}

static inline uint64_t gguf_bits_at(const uint8_t *p, int bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < bytes; i++)
        bits |= (uint64_t)p[i] << 8 * i;
    return bits;
}

#endif
