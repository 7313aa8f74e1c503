/* A file that takes its place when it is whole: written beside it under another name, synced, renamed. What is
 * unfinished is deleted, also when the program is interrupted. */
#ifndef QUANTIZE_OUTPUT_H
#define QUANTIZE_OUTPUT_H

#include "complain.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { OUTPUT_PATH = 4096 };

typedef struct output {
    char path[OUTPUT_PATH], unfinished[OUTPUT_PATH + 8];
    FILE *file; /* NULL: none is open */
    int64_t at; /* bytes written */
} output;

/* Refuses a file that is there, unless force, and a folder with less room than bytes. */
int output_begin(output *o, const char *path, int64_t bytes, bool force, complaint to);
int output_write(output *o, const void *bytes, int64_t count, complaint to);
int output_pad(output *o, int64_t alignment, complaint to);
/* Everything is on the disk; then output_rename() cannot fail for want of room. */
int output_finish(output *o, complaint to);
int output_rename(output *o, complaint to); /* from the first one on, no signal stops the others */
void output_drop(output *o);                /* deletes what is unfinished; nothing after output_rename() */

#endif
