/* Vectors to a file as they come: .npy (numpy.load) or JSON lines. */
#ifndef EMBED_VECTORS_FILE_H
#define EMBED_VECTORS_FILE_H

#include "complain.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct vectors_file {
    FILE *file;
    const char *path;
    bool npy;
    int64_t count, width;
} vectors_file;

/* A path that ends in .npy, or another or "-" (standard output) for JSON lines. 0, or -1 after a complaint. */
int vectors_file_open(const char *path, int64_t width, vectors_file *vectors, complaint to);

/* Behind each call the file is whole: a program that is stopped then leaves what it wrote. */
int vectors_file_add(vectors_file *vectors, const float *values, int64_t count, complaint to);
int vectors_file_close(vectors_file *vectors, complaint to);

#endif
