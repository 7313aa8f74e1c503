/* A file that takes its place when it is whole: written under another name in its folder, synced, renamed. What is
 * unfinished is deleted, also when the program is interrupted. */
#ifndef MODELS_WHOLE_FILE_H
#define MODELS_WHOLE_FILE_H

#include "complain.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { WHOLE_FILE_PATH = 4096 };

typedef struct whole_file {
    char path[WHOLE_FILE_PATH], unfinished[WHOLE_FILE_PATH + 8];
    FILE *file; /* NULL: none is open */
    int64_t at; /* bytes written */
} whole_file;

/* Refuses a file that is there, unless force, and a folder with less room than bytes. */
int whole_file_begin(whole_file *o, const char *path, int64_t bytes, bool force, complaint to);
int whole_file_write(whole_file *o, const void *bytes, int64_t count, complaint to);
int whole_file_pad(whole_file *o, int64_t alignment, complaint to);
/* Everything is on the disk; then whole_file_rename() cannot fail for want of room. */
int whole_file_finish(whole_file *o, complaint to);
int whole_file_rename(whole_file *o, complaint to); /* from the first one on, no signal stops the others */
void whole_file_drop(whole_file *o);                /* deletes what is unfinished; nothing after whole_file_rename() */

#endif
